"""Problems of RabbitMQ's API: with its `error`, `reason` and statuses."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import orjson

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.requests.asgi import Scope, Send
from entrepot.gateway.http.requests.problems import (
    REALM,
    ProblemAnswer,
    answer_of,
    fit_for,
    log_refusal,
    problem_answer,
    send_problem,
    send_what_is_wrong,
)
from entrepot.gateway.operations.row.problem import Problem
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

RABBITMQ_REALM: Final = "RabbitMQ Management"
"""Realm of the challenges, by which monitoring checks know the API."""
_CODES: Final[Mapping[ReplyCode, Code]] = {
    ReplyCode.NOT_FOUND: Code.TOPIC_NOT_FOUND,
    ReplyCode.ACCESS_REFUSED: Code.FORBIDDEN,
}
_WORDS: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "not_authorized",
    403: "not_authorised",
    404: "Object Not Found",
}


async def send_rabbitmq_problem(scope: Scope, send: Send, error: Exception) -> None:
    """Answer and log a failed request in RabbitMQ's form."""
    if isinstance(error, AmqpError):
        error = EntrepotError(_CODES.get(error.code, Code.PRECONDITION_FAILED), error.text)
    if not isinstance(error, EntrepotError):
        await send_what_is_wrong(scope, send, error)
        return
    problem = _problem(scope, error)
    log_refusal(scope["method"], scope["path"], problem.status, error.message)
    await send_problem(send, problem)
    error.with_traceback(None)  # its frames may hold it


def _problem(scope: Scope, error: EntrepotError) -> ProblemAnswer:
    return in_rabbitmqs_form(fit_for(scope, answer_of(error)), error.message)


def in_rabbitmqs_form(given: ProblemAnswer, reason: str) -> ProblemAnswer:
    """Return a problem with `error`, `reason`, and RabbitMQ's status and realm."""
    fields = orjson.loads(given.body)
    status = HTTPStatus.BAD_REQUEST if given.status == HTTPStatus.CONFLICT else HTTPStatus(given.status)
    problem = Problem(status, fields.pop("type").rpartition(":")[2], fields.pop("title"))
    members = {name: value for name, value in fields.items() if name not in ("status", "detail", "error")}
    words = _WORDS.get(status, problem.title)
    answer = problem_answer(problem, reason, **members, error=words, reason=reason)
    challenge = given.headers.get("www-authenticate")
    if challenge is not None:
        answer.headers["www-authenticate"] = challenge.replace(f'"{REALM}"', f'"{RABBITMQ_REALM}"')
    return answer
