"""Serving: an operation over HTTP: who asks, what may be asked, what comes in, what goes out.

One request, in this order: principal, names, rights, the namespace, query, body, handler, answer.  Who may not ask
learns nothing of names, and no body is read before.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.responses import StreamingResponse

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.http.access import PROTOCOL, HttpAccess
from entrepot.gateway.http.asgi import Headers, Receive, Scope, Send, declared_length, while_connected
from entrepot.gateway.http.asgi import answer as send_answer
from entrepot.gateway.http.asgi import read_body as read_whole_body
from entrepot.gateway.http.changes import TOLD, AuditedChanges
from entrepot.gateway.http.problems import send_what_is_wrong
from entrepot.gateway.http.request_times import TEMPLATE
from entrepot.gateway.operations.asked import Asked, known_namespace
from entrepot.gateway.operations.operation import Noun, Operation
from entrepot.gateway.operations.reading import read_body, read_query, whole_name
from entrepot.gateway.operations.shapes import Created, GroupName, Made, Pieces, Raw, TopicName, WholeName
from entrepot.gateway.operations.table import Found, Table
from entrepot.gateway.security.security import refusal_of

_JSON: Final = (b"content-type", b"application/json")
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Bound:
    """An operation with its noun's object."""

    own: object
    handler: Any
    parameters: tuple[str, ...]
    """Of the handler, for the names of the path."""
    decoder: msgspec.json.Decoder[Any] | None
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
        *,
        cluster: str,
        max_body_bytes: int,
    ) -> None:
        """`cluster`: name of the Cluster resource."""
        self.table, self._store, self._access = table, store, access
        self._cluster, self._max_body_bytes = cluster, max_body_bytes
        self._bound = {operation: _bound(operation, objects[operation.noun]) for operation in table.operations}

    def find(self, scope: Scope) -> Found | None:
        """Return the operation of a request, or None."""
        return self.table.find(scope["method"], scope.get("raw_path") or b"")

    async def answer(self, found: Found, scope: Scope, receive: Receive, send: Send, changes: AuditedChanges) -> None:
        """Send the operation's answer, or its problem; `changes` notes it in the audit log."""
        scope["path_params"], scope[TEMPLATE] = found.names, found.template
        send = changes.noting(scope, send)
        try:
            status, headers, body = await self._answer(found.operation, found.names, scope, receive)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            await send_what_is_wrong(scope, send, error)
            return
        if isinstance(body, Pieces):
            await StreamingResponse(body.pieces, status, media_type=body.media_type)(scope, receive, send)
        elif body is not None:
            await send_answer(send, status, headers, body)
        else:
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    async def _answer(
        self, operation: Operation, names: dict[str, str], scope: Scope, receive: Receive
    ) -> tuple[int, Headers, bytes | Pieces | None]:
        bound = self._bound[operation]
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        principal = await self._access.principal(scope)
        state: dict[str, Any] = scope.setdefault("state", {})
        state["principal"] = principal
        asked = Asked(names, dict(pairs), principal, self._cluster)
        for name, kind in operation.names.items():
            asked.stored[name] = _stored(asked, names[name], kind)
        self._check(operation, bound.own, asked)
        if bound.needs_namespace:
            known_namespace(self._store, asked.namespace)
        arguments: dict[str, Any] = {
            parameter: whole_name(name, asked.stored[name]) if kind is WholeName else asked.stored[name]
            for (name, kind), parameter in zip(operation.names.items(), bound.parameters, strict=True)
        }
        if operation.takes_asked:
            arguments["asked"] = asked
        if operation.query is not None:
            arguments["query"] = read_query(operation.query, pairs)
        if operation.head is not None:
            arguments["head"] = read_query(operation.head, _texts(scope["headers"]), "header.")
        if bound.decoder is not None:
            limit, declared = self._max_body_bytes, declared_length(scope["headers"])
            arguments["body"] = read_body(bound.decoder, await read_whole_body(receive, limit, declared))
        try:
            work = bound.handler(**arguments)
            return _encoded(await (while_connected(receive, work) if operation.waits else work))
        finally:  # what failed may have changed something, too
            if asked.told is not None:
                state[TOLD] = asked.told

    def _check(self, operation: Operation, own: object, asked: Asked) -> None:
        """Raise FORBIDDEN where a right is lacking."""
        right, allows = operation.right, self._access.security.allows
        if right.is_for_super_users:
            self._access.check_administration(asked.principal)
        for need in right.needs(own, asked):
            if not allows(asked.principal, need.action, need.resource_type, need.name, PROTOCOL):
                if right.refusal is not None:
                    raise EntrepotError(Code.FORBIDDEN, right.refusal(asked))
                raise refusal_of(need.action, need.resource_type, need.name)


def _bound(operation: Operation, own: object) -> _Bound:
    decoder = None if operation.body is None else msgspec.json.Decoder(operation.body)
    handler = operation.handler.__get__(own)
    by_name = {parameter.rstrip("_"): parameter for parameter in inspect.signature(handler).parameters}
    parameters = tuple(by_name[name] for name in operation.names)
    needs_namespace = operation.is_in_namespaces and operation.right.tells_namespace
    return _Bound(own, handler, parameters, decoder, needs_namespace)


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers]


def _stored(asked: Asked, plain: str, kind: Any) -> str:
    if kind is GroupName:
        return asked.group(plain)
    return asked.topic(plain) if kind is TopicName else plain


def _encoded(answer: Any) -> tuple[int, Headers, bytes | Pieces | None]:
    """Return status, headers and body of an answer; None for no body."""
    if answer is None:
        return 204, [], None
    if isinstance(answer, Raw):
        named = {"content-type": answer.media_type, **answer.headers}
        return 200, [(name.encode(), value.encode("latin-1")) for name, value in named.items()], answer.body
    if isinstance(answer, Pieces):
        return 200, [], answer
    if isinstance(answer, Made):
        return (201 if answer.is_new else 200), [_JSON], _encode(answer.value)
    if isinstance(answer, Created):
        return 201, [_JSON], _encode(answer.value)
    return 200, [_JSON], _encode(answer)
