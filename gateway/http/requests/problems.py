"""Problem details (RFC 9457): the one form of every HTTP refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from entrepot.domain.errors import Code, EntrepotError, LaterError
from entrepot.gateway.http.requests.asgi import ClientGoneError, Headers, Scope, Send, answer
from entrepot.gateway.http.requests.login_cookie import is_by_script
from entrepot.gateway.http.requests.problem_types import EVENT_PROBLEMS, PROBLEMS, problem_of
from entrepot.gateway.operations.row.problem import HttpRefusalError, Problem, bad_request
from entrepot.gateway.operations.row.refusals import sentence_of
from entrepot.gateway.security.setup_token import SetupTokenNeededError
from entrepot.protocols.cloudevents.errors import CloudEventError

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
PROBLEM_TYPE_PREFIX: Final = "urn:entrepot:problem:"
REALM: Final = "entrepot"
CHALLENGE: Final = f'Basic realm="{REALM}", charset="UTF-8", Bearer realm="{REALM}"'
"""Challenges of a 401 answer."""
SCRIPT_CHALLENGE: Final = f'Bearer realm="{REALM}"'
CLIENT_GONE: Final = 499
"""Status of requests whose client has gone before their answer, in metrics."""
RETRY_AFTER_SECONDS: Final[Mapping[int, int]] = {429: 1, 503: 1, 507: 10}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ProblemAnswer:
    """A response with a problem."""

    status: int
    headers: dict[str, str]
    body: bytes

    def raw_headers(self) -> Headers:
        return [(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()]


class ForeignPageError(HttpRefusalError):
    """A request of a page of another origin that no setting allows."""

    problem_of_all: Final = Problem(403, "foreign-page", "Pages of other origins may not ask")

    def __init__(self, page: str) -> None:
        message = f"{page} may not ask this server: http.allowed_origins names the pages that may"
        super().__init__(Code.FORBIDDEN, self.problem_of_all, message)


class UnknownHostError(HttpRefusalError):
    """A request without credentials, by an unknown host name."""

    problem_of_all: Final = Problem(421, "unknown-host", "The host is not known")

    def __init__(self, host: str) -> None:
        message = f"{host[:80]!r} is not known as a name of this server: http.hosts names them, or show credentials"
        super().__init__(Code.FORBIDDEN, self.problem_of_all, message)


class FormBodyError(HttpRefusalError):
    """A body of a content type that any page may send."""

    problem_of_all: Final = Problem(415, "unsupported-media-type", "The content type is not supported")

    def __init__(self, media_type: str) -> None:
        message = f"bodies are JSON here, not {media_type}: send Content-Type: application/json (curl --json)"
        super().__init__(Code.BAD_REQUEST, self.problem_of_all, message)


SETUP_NEEDED: Final = Problem(401, "setup-token-needed", "The first user is defined with the setup token")

MISSING: Final = (
    *("topic", "namespace", "subscription", "message", "retained", "session", "client", "trace", "user", "consent"),
    *("vhost", "channel", "connection", "node", "permission", "policy", "job", "parameter"),
)
"""Nouns of `MissingError`."""


def problem_types() -> list[str]:
    """The `type` of every refusal with a type of its own; others have that of their HTTP status."""
    slugs = [problem.slug for problem in (*PROBLEMS.values(), *EVENT_PROBLEMS.values())]
    own = (ForeignPageError.problem_of_all, UnknownHostError.problem_of_all, FormBodyError.problem_of_all, SETUP_NEEDED)
    slugs += [problem.slug for problem in own]
    slugs += [f"{each}-not-found" for each in MISSING]
    return [PROBLEM_TYPE_PREFIX + slug for slug in dict.fromkeys(slugs)]


def problem_answer(problem: Problem, detail: str, **members: object) -> ProblemAnswer:
    """The response for a problem; `members` are its extension members.  `error` repeats code and detail in OData's form
    for Azure's clients (`azure.core.exceptions`), unless it is in the members."""
    headers = {"content-type": PROBLEM_MEDIA_TYPE}
    if problem.status in RETRY_AFTER_SECONDS:
        headers["retry-after"] = str(RETRY_AFTER_SECONDS[problem.status])
    fields = {
        "type": PROBLEM_TYPE_PREFIX + problem.slug,
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
        **members,
    }
    code = members.get("code", problem.slug.upper().replace("-", "_"))
    target = {"target": members["attribute"]} if "attribute" in members else {}
    fields.setdefault("error", _encodable({"code": code, "message": detail, **target}))
    return ProblemAnswer(problem.status, headers, orjson.dumps(_encodable(fields)))


def answer_of(error: EntrepotError | CloudEventError) -> ProblemAnswer:
    """The response for a refusal."""
    if isinstance(error, HttpRefusalError):
        return problem_answer(error.problem, error.message)
    if isinstance(error, SetupTokenNeededError):
        path = None if error.path is None else str(error.path)
        answer = problem_answer(SETUP_NEEDED, error.message, code=error.code.name, setupTokenFile=path)
        answer.headers["www-authenticate"] = CHALLENGE
        return answer
    problem = problem_of(error)
    if isinstance(error, EntrepotError):
        answer = problem_answer(problem, sentence_of(error), code=error.code.name)
        if error.code is Code.UNAUTHORIZED:
            answer.headers["www-authenticate"] = CHALLENGE
        if isinstance(error, LaterError):
            answer.headers["retry-after"] = str(error.seconds)
        return answer
    if error.attribute is not None:
        return problem_answer(problem, error.message, attribute=error.attribute)
    return problem_answer(problem, error.message)


def answer_of_status(status: int, detail: str) -> ProblemAnswer:
    """The response for a status without a type of its own, such as an unknown route or method."""
    title = HTTPStatus(status).phrase
    return problem_answer(Problem(status, title.lower().replace(" ", "-"), title), detail)


def log_refusal(method: str, path: str, status: int, detail: str) -> None:
    """Log a refusal, once, at the boundary."""
    tell = _log.warning if status >= 500 else _log.info
    tell(
        "http request refused",
        seldom=f"http {status}",
        method=method,
        path=path[:200],
        status=status,
        detail=detail[:500],
    )


def log_fault(method: str, path: str, error: BaseException) -> ProblemAnswer:
    """Log an internal error with all details; return an answer without any."""
    _log.error("http request failed", seldom=type(error).__name__, method=method, path=path[:200], exc_info=error)
    return problem_answer(PROBLEMS[Code.INTERNAL_ERROR], "the server met an error of its own; its log tells more")


async def send_problem(send: Send, problem: ProblemAnswer) -> None:
    """Send a problem from a plain ASGI route."""
    await answer(send, problem.status, problem.raw_headers(), problem.body)


def fit_for(scope: Scope, problem: ProblemAnswer) -> ProblemAnswer:
    """Offer no Basic challenge to scripts of a page: the browser would ask for a password in a window of its own."""
    if problem.status == HTTPStatus.UNAUTHORIZED and is_by_script(scope):
        problem.headers["www-authenticate"] = SCRIPT_CHALLENGE
    return problem


async def send_what_is_wrong(scope: Scope, send: Send, error: Exception) -> None:
    """Answer and log a failed request of a plain ASGI route."""
    if isinstance(error, EntrepotError | CloudEventError):
        problem = fit_for(scope, answer_of(error))
        log_refusal(scope["method"], scope["path"], problem.status, error.message)
        await send_problem(send, problem)
    elif isinstance(error, ClientGoneError):
        await answer(send, CLIENT_GONE, [], b"")  # nobody reads it: it is counted
    else:
        await send_problem(send, log_fault(scope["method"], scope["path"], error))
    error.with_traceback(None)  # its frames may hold it


def install(app: FastAPI) -> None:
    """Make a problem of every refusal of an app's routes.  Requests without one do not get here (`methods.py`)."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, EntrepotError | CloudEventError)
        error.with_traceback(None)  # its frames may hold it
        return _told(request, fit_for(request.scope, answer_of(error)), error.message)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        detail = "; ".join(_sentence(found) for found in error.errors())
        return _told(request, answer_of(bad_request(detail)), detail)

    async def by_status(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        is_missing = error.status_code == HTTPStatus.NOT_FOUND
        detail = "there is nothing at this path" if is_missing else str(error.detail)
        problem = answer_of_status(error.status_code, detail)
        problem.headers.update(error.headers or {})
        return _told(request, problem, detail)

    async def gone(request: Request, error: Exception) -> Response:
        return Response(status_code=CLIENT_GONE)

    async def fault(request: Request, error: Exception) -> Response:
        return _response(log_fault(request.method, request.url.path, error))

    for kind in (EntrepotError, CloudEventError):
        app.add_exception_handler(kind, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, by_status)
    app.add_exception_handler(ClientGoneError, gone)
    app.add_exception_handler(Exception, fault)


def _told(request: Request, problem: ProblemAnswer, detail: str) -> Response:
    log_refusal(request.method, request.url.path, problem.status, detail)
    return _response(problem)


def _response(problem: ProblemAnswer) -> Response:
    return Response(problem.body, status_code=problem.status, headers=problem.headers)


def _sentence(found: Mapping[str, Any]) -> str:
    where = ".".join(str(step) for step in found["loc"] if step not in ("query", "body", "path"))
    message = found["msg"].removeprefix("Value error, ")
    return f"{where}: {message}" if where else str(message)


def _encodable(fields: dict[str, object]) -> dict[str, object]:
    """Replace lone surrogates, which JSON cannot encode."""
    return {
        name: value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
        for name, value in fields.items()
    }
