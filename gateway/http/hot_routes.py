"""HotRoutes: a fast router in front of the framework, for plain requests of frequent routes.

The framework's router and dependencies cost as much as ten events.  Rights, handler and problems are the same as there.
Requests that are not plain (other parameters, encoded names, values out of range) go to the framework, which reports
their faults.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastapi import Request, Response

from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.asgi import Receive, Scope, Send, decoded_name
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import send_what_is_wrong
from entrepot.gateway.http.request_times import TEMPLATE
from entrepot.gateway.http.rights import check_rights
from entrepot.gateway.http.routes import Route

_PARAMETER: Final = re.compile(r"\{([a-z]+)\}")
_PLAIN_NAME: Final = "[A-Za-z0-9_.-]{1,64}"
_ANY_NAME: Final = "[^/]*"


class HotRoutes:
    """The fast router."""

    def __init__(self, context: HttpContext, access: HttpAccess, routes: Iterable[Route]) -> None:
        self._context, self._access = context, access
        self._routes: dict[tuple[str, bytes], list[tuple[re.Pattern[bytes], Route]]] = defaultdict(list)
        for route in routes:
            if route.hot is not None:
                verb = route.path.rpartition(":")[2].encode()
                self._routes[route.method, verb].append((pattern_of(route), route))

    def route_of(self, scope: Scope) -> tuple[Route, dict[str, Any]] | None:
        """Return the hot route of a request and its handler's arguments; None where the framework must handle it."""
        raw_path: bytes = scope.get("raw_path") or b""
        for pattern, route in self._routes.get((scope["method"], raw_path.rpartition(b":")[2]), ()):
            found = pattern.fullmatch(raw_path)
            if found is not None:
                assert route.hot is not None
                arguments = route.hot.arguments(scope.get("query_string") or b"")
                if arguments is None:
                    return None
                named = {name: decoded_name(raw) for name, raw in found.groupdict().items()}
                scope["path_params"], scope[TEMPLATE] = dict(named), route.path
                named.pop("namespace", None)  # handlers ask the request for it
                return route, {**named, **arguments}
        return None

    async def answer(
        self, route: Route, arguments: Mapping[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Send the handler's response, or its problem."""
        request = Request(scope, receive)
        try:
            await check_rights(self._context, self._access, request, route.rights)
            response: Response = await route.handler(request, **arguments)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            await send_what_is_wrong(scope, send, error)
        else:
            await response(scope, receive, send)


def pattern_of(route: Route) -> re.Pattern[bytes]:
    """Pattern of a hot route's raw paths, with its parameters as named groups."""
    name = _ANY_NAME if route.hot is not None and route.hot.takes_any_name else _PLAIN_NAME
    parts = _PARAMETER.split(route.path)
    text = "".join(f"(?P<{part}>{name})" if at % 2 else re.escape(part) for at, part in enumerate(parts))
    return re.compile(text.encode())
