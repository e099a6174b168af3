"""Common parts of RabbitMQ's API: refusals, virtual hosts in paths, bodies, the AMQP front end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, field_validator

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import answer_of, fit_for, log_refusal, problem_answer
from entrepot.gateway.http.routes import Router
from entrepot.gateway.operations.problem import MissingError, Problem
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

PREFIX: Final = "/api"
DEFAULT_EXCHANGE_NAME: Final = "amq.default"
"""Name in paths and lists of the default exchange, whose real name is empty."""
NO_CONTENT: Final = 204
CREATED: Final = 201

_CODES: Final[Mapping[ReplyCode, Code]] = {
    ReplyCode.NOT_FOUND: Code.TOPIC_NOT_FOUND,
    ReplyCode.ACCESS_REFUSED: Code.FORBIDDEN,
}


class LenientBody(BaseModel):
    """A JSON object as RabbitMQ takes it: unknown fields are ignored, `"true"` counts as `true`."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class ArgumentsBody(LenientBody):
    """An object with arguments.  An empty array counts as an empty object, as some JSON writers have it."""

    arguments: dict[str, Any] = Field(default_factory=dict)

    @field_validator("arguments", mode="before")
    @classmethod
    def _none_is_empty(cls, value: Any) -> Any:
        return value or {}


class RabbitMqRoute(APIRoute):
    """A route whose problems have RabbitMQ's `error`, `reason` and statuses."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await handle(request)
            except EntrepotError as error:
                return _refusal(request, error)
            except AmqpError as error:
                return _refusal(request, EntrepotError(_CODES.get(error.code, Code.PRECONDITION_FAILED), error.text))

        return handler


def _refusal(request: Request, error: EntrepotError) -> Response:
    given = fit_for(request.scope, answer_of(error))
    fields = orjson.loads(given.body)
    status = HTTPStatus.BAD_REQUEST if given.status == HTTPStatus.CONFLICT else HTTPStatus(given.status)
    problem = Problem(status, fields.pop("type").rpartition(":")[2], fields.pop("title"))
    words = {400: "bad_request", 401: "not_authorized", 403: "not_authorised", 404: "Object Not Found"}
    members = {name: value for name, value in fields.items() if name not in ("status", "detail", "error")}
    answer = problem_answer(
        problem, error.message, **members, error=words.get(status, problem.title), reason=error.message
    )
    answer.headers.update({name: value for name, value in given.headers.items() if name == "www-authenticate"})
    log_refusal(request.method, request.url.path, int(status), error.message)
    return Response(answer.body, status_code=status, headers=answer.headers)


def new_router() -> Router:
    return Router(["rabbitmq"], PREFIX, RabbitMqRoute)


def frontend_of(context: HttpContext) -> AmqpFrontend:
    """The AMQP front end.  Raises if AMQP is disabled."""
    if context.amqp is None:
        raise MissingError("amqp-closed", "AMQP is disabled", "the AMQP listener of this server is disabled")
    return context.amqp


def virtual_hosts_of(context: HttpContext) -> VirtualHosts:
    """The virtual hosts.  Raises if AMQP is disabled."""
    return frontend_of(context).virtual_hosts


def vhost_in_path(context: HttpContext, parameter: str) -> Vhost:
    """The virtual host of a path.  Raises if there is none of that name."""
    return vhost_of_name(context, name_in_path(parameter))


def vhost_of_name(context: HttpContext, name: str) -> Vhost:
    found = virtual_hosts_of(context).definitions.vhost(name)
    if found is None:
        raise MissingError("vhost-not-found", "The virtual host does not exist", f"there is no vhost {name[:80]!r}")
    return found


def queue_in_path(context: HttpContext, vhost: Vhost, parameter: str) -> Queue:
    name = name_in_path(parameter)
    queue = vhost.queue(name)
    if queue is None:
        raise missing("queue", name, vhost)
    return queue


def exchange_name_in_path(parameter: str) -> str:
    name = name_in_path(parameter)
    return "" if name == DEFAULT_EXCHANGE_NAME else name


def missing(kind: str, name: str, vhost: Vhost) -> MissingError:
    return MissingError(
        f"{kind}-not-found", f"The {kind} does not exist", f"no {kind} '{name}' in vhost '{vhost.name}'"
    )


def nothing() -> Response:
    return Response(status_code=NO_CONTENT)


def created(is_new: bool) -> Response:
    return Response(status_code=CREATED if is_new else NO_CONTENT)
