"""Login of people in a browser: `/api/v1/session`, which sets, shows and ends the cookie of `login_cookie`."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.access.model import EVERYTHING, Action, Principal, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.timestamp import to_rfc3339
from entrepot.gateway.http.access import PROTOCOL, HttpAccess, source_of
from entrepot.gateway.http.admin.common import NO_CONTENT, Change, schema_of
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.login_cookie import cookie_name, is_https, login_token
from entrepot.gateway.http.problems import answer_of
from entrepot.gateway.http.rights import DEFAULT_CLUSTER, Open
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.change_names import NO_CHANGE, TOLD_BELOW
from entrepot.gateway.operations.operation import PREFIX
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.passwords import MAX_PASSWORD_BYTES
from entrepot.gateway.security.token_shape import MAX_TOKEN_BYTES
from entrepot.gateway.version import own_version

PATH: Final = "/session"
ANYBODY: Final = Open(None)
_SHOWN: Final = (Action.LIST, Action.GET, Action.CREATE, Action.UPDATE, Action.DELETE, Action.PUB, Action.SUB)
"""Actions of `may`, of those that a resource type has a page for."""


class LoginBody(Change):
    """Credentials: a name with a password, or a token (JWT, or the setup token)."""

    may_be_null: ClassVar[frozenset[str]] = frozenset()

    name: str = Field("", max_length=MAX_PASSWORD_BYTES)
    password: str = Field("", max_length=MAX_PASSWORD_BYTES)
    token: str = Field("", max_length=MAX_TOKEN_BYTES)


_BODY: Final = schema_of_body(schema_of(LoginBody))


def login_routes(context: HttpContext, access: HttpAccess) -> Router:
    """The routes of logins."""
    router = Router(["session"], PREFIX)
    security, logins = context.security, context.logins

    @router.get(PATH, ANYBODY, summary="Get the login of this browser, and what it may do")
    async def get_session(request: Request) -> Response:
        return json_answer(_shape(context, request, await _present(access, request)))

    @router.post(PATH, ANYBODY, change=TOLD_BELOW, summary="Log in, in a browser", openapi_extra=_BODY)
    async def log_in(request: Request) -> Response:
        access.at_once(request.scope)  # raises where a page of another name asks a gateway that is open to all
        given = await body_of(request, context, LoginBody)
        principal = await _recognised(context, request, given)
        token, expires_ms = logins.open(principal)
        security.audit.changed("logged in", principal.name, principal.source, "dashboard")
        login = logins.login_of(token, principal.source)
        answer = json_answer(_shape(context, request, login.principal))
        seconds = max((expires_ms - context.clock.now_ms()) // 1000, 1)
        _set_cookie(answer, request, token, seconds)
        return answer

    @router.delete(PATH, ANYBODY, change=NO_CHANGE, summary="Log out, at every gateway", status_code=NO_CONTENT)
    async def log_out(request: Request) -> Response:
        access.at_once(request.scope)
        token = login_token(request.scope)
        answer = Response(status_code=NO_CONTENT)
        try:
            if token is not None:
                await logins.end(token)
        except EntrepotError as refusal:  # here it is over; the others could not be told
            problem = answer_of(refusal)
            answer = Response(problem.body, status_code=problem.status, headers=problem.headers)
        _set_cookie(answer, request, "", 0)
        return answer

    return router


async def _present(access: HttpAccess, request: Request) -> Principal | None:
    """The principal that a browser has already, or None.  Nothing shown is no refused login."""
    if not access.shows_credentials(request.scope):
        return access.at_once(request.scope)
    try:
        return await access.principal(request.scope)
    except EntrepotError as refusal:
        if refusal.code is not Code.UNAUTHORIZED:
            raise
        return None


async def _recognised(context: HttpContext, request: Request, given: LoginBody) -> Principal:
    """The principal of a login form. Raises UNAUTHORIZED, FORBIDDEN, TOO_MANY_REQUESTS, BAD_REQUEST."""
    source, security = source_of(request.scope), context.security
    if given.token:
        shown = Credentials(PROTOCOL, source, password=given.token.encode("utf-8", "replace"), bearer=True)
        principal = security.setup_token.principal_of(shown)
        if principal is not None:
            return principal
    elif given.name and given.password:
        password = given.password.encode("utf-8", "surrogatepass")
        shown = Credentials(PROTOCOL, source, given.name, password)
    else:
        raise bad_request("a login needs name and password, or token")
    principal = await security.authenticate(shown)
    if principal.is_anonymous:
        refusal = EntrepotError(Code.UNAUTHORIZED, "no user is defined: log in with the setup token")
        security.login_refused(shown, refusal)
        raise refusal
    return principal


def _set_cookie(answer: Response, request: Request, token: str, seconds: int) -> None:
    answer.set_cookie(
        cookie_name(request.scope),
        token,
        max_age=seconds,
        path="/",
        secure=is_https(request.scope),
        httponly=True,
        samesite="strict",
    )
    answer.headers["cache-control"] = "no-store"


def _shape(context: HttpContext, request: Request, principal: Principal | None) -> dict[str, Any]:
    security = context.security
    expires_ms = None if principal is None else principal.expires_at_ms
    return {
        "user": None if principal is None else principal.name,
        "isAnonymous": principal is not None and principal.is_anonymous,
        "isSuper": principal is not None and security.is_super(principal),
        "expiresAt": None if expires_ms is None else to_rfc3339(expires_ms),
        "setupNeeded": security.setup_token.value is not None,
        "tls": is_https(request.scope),
        "cluster": context.settings.cluster.name or DEFAULT_CLUSTER,
        "gateway": context.peers.name,
        "version": own_version(),
        "may": [] if principal is None else _rights(context, principal),
    }


def _rights(context: HttpContext, principal: Principal) -> list[str]:
    """Actions allowed on everything of a type, such as `Topic:LIST`; asking for them is not audited."""
    cluster = context.settings.cluster.name or DEFAULT_CLUSTER
    names = dict.fromkeys(ResourceType, EVERYTHING) | {ResourceType.CLUSTER: cluster}
    return [
        f"{kind}:{action}"
        for kind, name in names.items()
        for action in _SHOWN
        if context.security.why(principal, action, kind, name).is_allowed
    ]
