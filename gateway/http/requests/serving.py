"""Serving: an operation over HTTP: who asks, what may be asked, what comes in, what goes out.

One request, in this order: principal, names, rights, the namespace, query, body, handler, answer.  A client without
rights learns nothing of names, and no body is read before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import StreamingResponse

from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.http.requests.access import PROTOCOL, HttpAccess, source_of
from entrepot.gateway.http.requests.asgi import Headers, Receive, Scope, Send, declared_length, while_connected
from entrepot.gateway.http.requests.asgi import answer as send_answer
from entrepot.gateway.http.requests.asgi import read_body as read_whole_body
from entrepot.gateway.http.requests.changes import TOLD, AuditedChanges
from entrepot.gateway.http.requests.problems import log_fault, send_what_is_wrong
from entrepot.gateway.http.requests.rabbitmq_problems import send_rabbitmq_problem
from entrepot.gateway.http.requests.request_times import TEMPLATE
from entrepot.gateway.operations.row.asked import Asked, known_namespace
from entrepot.gateway.operations.row.operation import Noun, Operation, kinds_of
from entrepot.gateway.operations.row.problem import Form
from entrepot.gateway.operations.row.reading import read_body, read_lenient, read_query, whole_name
from entrepot.gateway.operations.row.rights import ALWAYS, DEFAULT_CLUSTER
from entrepot.gateway.operations.row.shapes import (
    Checked,
    Created,
    Declared,
    GroupName,
    LenientBody,
    Made,
    Pieces,
    Raw,
    RawBody,
    TopicName,
    WholeName,
)
from entrepot.gateway.operations.row.table import Found, Table
from entrepot.gateway.security.authentication import anonymous
from entrepot.gateway.security.security import refusal_of
from entrepot.gateway.settings import Settings

JSON: Final = "application/json"
_JSON_ALONE: Final = [(b"content-type", JSON.encode())]
_Encoded = tuple[int, Headers, bytes | Pieces | None]
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Bound:
    """An operation with its noun's object."""

    own: object
    handler: Any
    parameters: tuple[str, ...]
    """Of the handler, for the names of the path."""
    read: Callable[[bytes], Any] | None
    """Reads its body; None where it has none, or does it itself."""
    needs_namespace: bool
    """That of the path must be there.  Where the handler checks rights, it tells so to those who may know."""


class ServedOperations:
    """The operations of nouns, each with the object of its noun."""

    def __init__(
        self,
        objects: Mapping[Noun, object],
        table: Table,
        store: Store,
        access: HttpAccess,
        changes: AuditedChanges,
        settings: Settings,
    ) -> None:
        """`changes`: notes them in the audit log."""
        self.table, self._store, self._access, self._changes = table, store, access, changes
        self._cluster, self._max_body_bytes = settings.cluster.name or DEFAULT_CLUSTER, settings.http.max_body_bytes
        self._bound = {operation: _bound(operation, objects[operation.noun]) for operation in table.operations}

    def find(self, scope: Scope) -> Found | None:
        """Return the operation of a request, or None."""
        return self.table.find(scope["method"], scope.get("raw_path") or b"")

    async def answer(self, found: Found, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the operation's answer, or its problem."""
        scope["path_params"], scope[TEMPLATE] = found.names, found.template
        if found.operation.change:
            send = self._changes.noting(scope, send)
        further: dict[str, str] = {}
        try:
            status, headers, body = await self._answer(found.operation, found.names, further, scope, receive)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            tell = send_rabbitmq_problem if found.operation.noun.form is Form.RABBITMQ else send_what_is_wrong
            await tell(scope, _with_headers(send, further) if further else send, error)
            return
        if further:
            headers = [*headers, *_raw(further)]
        if isinstance(body, Pieces):
            answer = StreamingResponse(body.pieces, status, {**body.headers, **further}, body.media_type)
            try:
                await answer(scope, receive, send)
            except Exception as error:  # noqa: BLE001 - the boundary: the answer is broken off, and nothing else
                log_fault(scope["method"], scope["path"], error)
        elif body is not None or status != HTTPStatus.NO_CONTENT:
            await send_answer(send, status, headers, body or b"")
        else:  # its length is not told (RFC 9110, 8.6)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})

    async def _answer(
        self, operation: Operation, names: Mapping[str, str], further: dict[str, str], scope: Scope, receive: Receive
    ) -> _Encoded:
        bound = self._bound[operation]
        query = scope["query_string"]
        pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else []
        state: dict[str, Any] = scope.setdefault("state", {})
        is_open = self._is_open(operation)
        principal = anonymous(source_of(scope)) if is_open else await self._access.principal(scope)
        asked = Asked(names, dict(pairs), principal, self._cluster)
        for name, kind in operation.names.items():
            asked.stored[name] = _stored(asked, names[name], kind)
        if not is_open:
            state["principal"] = principal
            self._check(operation, bound.own, asked)
        if bound.needs_namespace:
            known_namespace(self._store, asked.namespace)
        arguments: dict[str, Any] = {
            parameter: whole_name(name, asked.stored[name]) if kind is WholeName else asked.stored[name]
            for (name, kind), parameter in zip(operation.names.items(), bound.parameters, strict=True)
        }
        if operation.takes_asked:
            asked.scope, asked.answer_headers = scope, further
            asked.may_go_on = partial(self._may_go_on, operation, bound.own, asked)
            asked.read_body = partial(self._read_body, scope, receive)
            asked.while_connected = partial(while_connected, receive)
            arguments["asked"] = asked
        if operation.query is not None:
            arguments["query"] = read_query(operation.query, pairs)
        if operation.head is not None:
            arguments["head"] = read_query(operation.head, _texts(scope["headers"]), "header.")
        if operation.body is not None:
            raw = await self._read_body(scope, receive)
            arguments["body"] = raw if bound.read is None else bound.read(raw)
            if operation.right.named is not None and not is_open:
                self._check_needs(operation, asked, operation.right.named(bound.own, asked, arguments["body"]))
        try:
            work = bound.handler(**arguments)
            return _encoded(await (while_connected(receive, work) if operation.waits else work))
        finally:  # what failed may have changed something, too
            if asked.told is not None:
                state[TOLD] = asked.told

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        return await read_whole_body(receive, self._max_body_bytes, declared_length(scope["headers"]))

    def _is_open(self, operation: Operation) -> bool:
        setting = operation.right.opened_by
        return setting == ALWAYS or bool(setting and getattr(self._access.security.settings, setting))

    async def _may_go_on(self, operation: Operation, own: object, asked: Asked) -> bool:
        """Return True while the client of an endless answer still may have it."""
        try:
            asked.principal = await self._access.principal(asked.scope)
            self._check(operation, own, asked)
        except EntrepotError:
            return False
        return True

    def _check(self, operation: Operation, own: object, asked: Asked) -> None:
        """Raise FORBIDDEN where a right is lacking."""
        if operation.right.is_for_super_users:
            self._access.check_administration(asked.principal)
        self._check_needs(operation, asked, operation.right.needs(own, asked))

    def _check_needs(self, operation: Operation, asked: Asked, needs: list[Need]) -> None:
        right, allows = operation.right, self._access.security.allows
        for need in needs:
            if not allows(asked.principal, need.action, need.resource_type, need.name, PROTOCOL):
                if right.refusal is not None:
                    raise EntrepotError(Code.FORBIDDEN, right.refusal(asked))
                raise refusal_of(need.action, need.resource_type, need.name)


def _bound(operation: Operation, own: object) -> _Bound:
    read: Callable[[bytes], Any] | None = None
    if any(issubclass(each, LenientBody) for each in kinds_of(operation.body)):
        read = partial(read_lenient, operation.body)
    elif operation.body not in (None, RawBody):
        read = partial(read_body, msgspec.json.Decoder(operation.body))
    handler = operation.handler.__get__(own)
    by_name = {parameter.rstrip("_"): parameter for parameter in inspect.signature(handler).parameters}
    parameters = tuple(by_name[name] for name in operation.names)
    needs_namespace = operation.is_in_namespaces and operation.right.tells_namespace
    return _Bound(own, handler, parameters, read, needs_namespace)


def _with_headers(send: Send, further: Mapping[str, str]) -> Send:
    """A `send` that adds these headers to a problem."""

    async def added(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_raw(further)]}
        await send(message)

    return added


def _raw(headers: Mapping[str, str]) -> Headers:
    return [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]


def _texts(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """Return headers as texts, the last one first: of one that comes several times the first counts."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in reversed(headers)]


def _stored(asked: Asked, plain: str, kind: Any) -> str:
    if kind is GroupName:
        return asked.group(plain)
    return asked.topic(plain) if kind is TopicName else plain


def _encoded(answer: Any) -> _Encoded:
    """Return status, headers and body of an answer; None for no body."""
    special = _SPECIAL.get(type(answer))
    return (200, _JSON_ALONE, _encode(answer)) if special is None else special(answer)


def _of_raw(answer: Raw) -> _Encoded:
    if answer.media_type == JSON and not answer.headers:
        return 200, _JSON_ALONE, answer.body
    named = {**({"content-type": answer.media_type} if answer.media_type else {}), **answer.headers}
    return 200, _raw(named), answer.body


def _of_created(answer: Created[Any]) -> _Encoded:
    return (201, [], None) if answer.value is None else (201, _JSON_ALONE, _encode(answer.value))


def _of_check(answer: Checked) -> _Encoded:
    told = {"status": "failed", "reason": answer.problem} if answer.problem else {"status": "ok"}
    return (503 if answer.problem else 200), _JSON_ALONE, _encode({**told, **answer.more})


_SPECIAL: Final[Mapping[type, Callable[[Any], _Encoded]]] = {
    type(None): lambda answer: (204, [], None),
    Raw: _of_raw,
    Pieces: lambda answer: (200, [], answer),
    Made: lambda answer: ((201 if answer.is_new else 200), _JSON_ALONE, _encode(answer.value)),
    Created: _of_created,
    Declared: lambda answer: ((201 if answer.is_new else 204), [], None),
    Checked: _of_check,
}
"""Answers that are not JSON of status 200."""
