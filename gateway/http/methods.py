"""Methods of every path besides its own: HEAD for each GET, OPTIONS, and `Allow` (RFC 9110, 9.3)."""

from __future__ import annotations

from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.routing import compile_path

from entrepot.gateway.http.asgi import Scope, Send, answer
from entrepot.gateway.http.problems import answer_of_status, log_refusal, send_problem
from entrepot.gateway.http.routes import routes_of
from entrepot.gateway.operations.table import Table

SERVER_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
"""Methods in the answer to `OPTIONS *`: those of any path."""
_HEAD: Final = "entrepot.head"


class RouteMethods:
    """The methods of each path, read from an app's routes and the table of operations."""

    def __init__(self, app: FastAPI, table: Table) -> None:
        self._table = table
        methods: dict[str, set[str]] = {}
        for method, path in routes_of(app):
            methods.setdefault(path, set()).add(method or "GET")  # the framework's own pages
        self._known = [(compile_path(path)[0], frozenset(own)) for path, own in methods.items()]

    def at(self, scope: Scope) -> list[str]:
        """The methods of a request's path, in the order of `SERVER_METHODS`; empty where there is no such path."""
        path: str = scope["path"]
        found = {method for pattern, methods in self._known if pattern.match(path) for method in methods}
        found |= self._table.methods_at(scope.get("raw_path") or b"")
        if "GET" in found:
            found.add("HEAD")
        if found:
            found.add("OPTIONS")
        return [method for method in SERVER_METHODS if method in found]

    async def answer_options(self, scope: Scope, send: Send) -> None:
        """Answer OPTIONS with `Allow`."""
        allowed = SERVER_METHODS if scope["path"] == "*" else self.at(scope)
        if allowed:
            await answer(send, HTTPStatus.OK, [(b"allow", ", ".join(allowed).encode())], b"")
            return
        problem = answer_of_status(HTTPStatus.NOT_FOUND, "there is nothing at this path")
        log_refusal(scope["method"], scope["path"], problem.status, "there is nothing at this path")
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

    return {**scope, "method": "GET", _HEAD: True}, send_head


def is_head(request: Request) -> bool:
    """True for a HEAD request, which must have no effect."""
    return _HEAD in request.scope
