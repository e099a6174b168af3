"""Methods of every path besides its own: HEAD for each GET, OPTIONS, and `Allow` (RFC 9110, 9.3)."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from entrepot.gateway.http.requests.asgi import Scope, Send, answer
from entrepot.gateway.http.requests.problems import answer_of_status, log_refusal, send_problem
from entrepot.gateway.http.requests.rabbitmq_paths import is_of_rabbitmq
from entrepot.gateway.http.requests.rabbitmq_problems import in_rabbitmqs_form
from entrepot.gateway.http.requests.request_times import TEMPLATE
from entrepot.gateway.operations.row.asked import HEAD
from entrepot.gateway.operations.row.table import PathTree, Table

SERVER_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
"""Methods in the answer to `OPTIONS *`: those of any path."""

_NOTHING: Final = "there is nothing at this path"
_UNKNOWN: Final = answer_of_status(HTTPStatus.NOT_FOUND, _NOTHING)
_UNKNOWN_HEADERS: Final = _UNKNOWN.raw_headers()
_UNKNOWN_OF_RABBITMQ: Final = in_rabbitmqs_form(_UNKNOWN, _NOTHING)


class PathMethods:
    """The methods of each path, read from an app's routes and the table of operations.

    It answers what no route takes, so that unknown paths and wrong methods cost no look at each route.
    """

    def __init__(self, app: FastAPI, table: Table) -> None:
        self._table = table
        self._tree: PathTree[None] = PathTree()
        self._folders: dict[str, set[str]] = {}
        for method, path in sorted(set(routes_of(app))):
            taken = method or "GET"  # the framework's own pages
            folder, _, rest = path.partition("{")
            if rest.endswith(":path}"):
                self._folders.setdefault(folder, set()).add(taken)
            else:
                self._tree.add(taken, path, None)

    def at(self, scope: Scope) -> list[str]:
        """The methods of a request's path, in the order of `SERVER_METHODS`; empty where there is no such path."""
        raw: bytes = scope.get("raw_path") or b""
        found = self._tree.methods_at(raw) | self._table.methods_at(raw)
        for folder, methods in self._folders.items():
            if scope["path"].startswith(folder):
                found |= methods
        if not found:
            return []
        if "GET" in found:
            found.add("HEAD")
        found.add("OPTIONS")
        return [method for method in SERVER_METHODS if method in found]

    async def answer_options(self, scope: Scope, send: Send) -> None:
        """Answer OPTIONS with `Allow`."""
        allowed = SERVER_METHODS if scope["path"] == "*" else self.at(scope)
        if allowed:
            await answer(send, HTTPStatus.OK, [_allow(allowed)], b"")
        else:
            await _refuse_unknown(scope, send)

    async def refuse(self, scope: Scope, send: Send) -> bool:
        """Answer a request that no route takes; False, and no answer, where one does."""
        allowed = self.at(scope)
        if scope["method"] in allowed:
            return False
        if allowed:
            raw: bytes = scope.get("raw_path") or b""
            scope[TEMPLATE] = self._table.template_at(raw) or self._tree.template_at(raw)
            detail = f"{scope['method']} is not a method of this path"
            await _refuse(scope, send, HTTPStatus.METHOD_NOT_ALLOWED, detail, {"allow": ", ".join(allowed)})
        else:
            await _refuse_unknown(scope, send)
        return True


def routes_of(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route; routes that are not FastAPI's, such as a mount, have no method."""
    found: list[tuple[str, str]] = []
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        methods = sorted(route.methods or ()) if isinstance(route, APIRoute) else [""]
        found += [(method, context.path or repr(route)) for method in methods]
    return found


def _allow(methods: Sequence[str]) -> tuple[bytes, bytes]:
    return b"allow", ", ".join(methods).encode()


async def _refuse_unknown(scope: Scope, send: Send) -> None:
    """Answer that there is no such path: anybody may ask for one, so it is made once."""
    log_refusal(scope["method"], scope["path"], _UNKNOWN.status, _NOTHING)
    if is_of_rabbitmq(scope):
        await send_problem(send, _UNKNOWN_OF_RABBITMQ)
    else:
        await answer(send, _UNKNOWN.status, _UNKNOWN_HEADERS, _UNKNOWN.body)


async def _refuse(
    scope: Scope, send: Send, status: HTTPStatus, detail: str, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    problem = answer_of_status(status, detail)
    if is_of_rabbitmq(scope):
        problem = in_rabbitmqs_form(problem, detail)
    problem.headers.update(headers)
    log_refusal(scope["method"], scope["path"], problem.status, detail)
    await send_problem(send, problem)


def as_get(scope: Scope, send: Send) -> tuple[Scope, Send]:
    """Turn HEAD into the corresponding GET.  Its answer ends after the head, also for a stream."""
    is_over = False

    async def send_head(message: MutableMapping[str, Any]) -> None:
        nonlocal is_over
        if is_over:
            return
        await send(message)
        is_over = True
        await send({"type": "http.response.body", "body": b""})

    return {**scope, "method": "GET", HEAD: True}, send_head
