"""Routes: the table of all HTTP routes with their rights.

FastAPI, the guard and the hot router read this one table.  A route exists once, or twice: plain, for the default
namespace, and below `/namespaces/{namespace}`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute, iter_route_contexts

from entrepot.gateway.http.rights import Rule
from entrepot.gateway.operations.change_names import NAMESPACE_PATH, change_of

ROOT: Final = "/"
DASHBOARD: Final = "/dashboard"
DASHBOARD_FILES: Final = "/dashboard/{file:path}"
PUBLIC_PAGES: Final = frozenset(
    {"/openapi.json", "/docs", "/docs/page.js", "/docs/page.css", ROOT, DASHBOARD, DASHBOARD_FILES}
)
"""Paths of pages that everybody may read, as they hold no data: the documentation, and the dashboard's files."""

Handler: TypeAlias = Callable[..., Any]
_HandlerT = TypeVar("_HandlerT", bound=Handler)


@dataclass(frozen=True, slots=True)
class Hot:
    """A route that plain requests reach without the framework.  `arguments`: the handler's further arguments by the raw
    query; None where the framework must parse it. `takes_any_name`: True if path names may contain encoded characters;
    else only plain ones are hot."""

    arguments: Callable[[bytes], Mapping[str, Any] | None]
    takes_any_name: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path.  `path`: the template, with `{parameters}`.  `change`: the event of its entries in the
    audit log; empty: none (`changes.py`)."""

    method: str
    path: str
    rights: Rule
    handler: Handler
    hot: Hot | None
    change: str


class MissingRightsError(Exception):
    """A route without declared rights."""


class _Methods(ABC):
    @abstractmethod
    def add(
        self,
        method: str,
        path: str,
        rights: Rule,
        *,
        hot: Hot | None = None,
        change: str | None = None,
        **options: Any,
    ) -> Callable[[_HandlerT], _HandlerT]:
        """Register a handler.  `change`: the event in the audit log; None: by the template.  `options`: FastAPI's."""

    def get(self, path: str, rights: Rule, **options: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self.add("GET", path, rights, **options)

    def put(self, path: str, rights: Rule, **options: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self.add("PUT", path, rights, **options)

    def post(self, path: str, rights: Rule, **options: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self.add("POST", path, rights, **options)

    def delete(self, path: str, rights: Rule, **options: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self.add("DELETE", path, rights, **options)


async def _guard(request: Request) -> None:
    """Ask the app that serves the route about the rights of a request."""
    await request.app.state.guard(request)


class Router(_Methods):
    """Routes below one prefix, each behind the guard of its app (`state.guard`)."""

    def __init__(self, tags: Iterable[str], prefix: str = "", route_class: type[APIRoute] = APIRoute) -> None:
        self.api = APIRouter(prefix=prefix, tags=[*tags], route_class=route_class, dependencies=[Depends(_guard)])
        self.routes: list[Route] = []

    def add(
        self,
        method: str,
        path: str,
        rights: Rule,
        *,
        hot: Hot | None = None,
        change: str | None = None,
        **options: Any,
    ) -> Callable[[_HandlerT], _HandlerT]:
        def register(handler: _HandlerT) -> _HandlerT:
            self.api.add_api_route(path, handler, methods=[method], **options)
            full = self.api.prefix + path
            event = change_of(method, full) if change is None else change
            self.routes.append(Route(method, full, rights, handler, hot, event))
            return handler

        return register


class Routes(_Methods):
    """Routes of one subject, in both places.  Those of namespaces stand behind all plain ones."""

    def __init__(self, tags: Iterable[str], prefix: str = "") -> None:
        self.plain = Router(tags, prefix)
        self.of_namespaces = Router(["namespaces"], prefix + NAMESPACE_PATH)

    def add(
        self,
        method: str,
        path: str,
        rights: Rule,
        *,
        hot: Hot | None = None,
        change: str | None = None,
        **options: Any,
    ) -> Callable[[_HandlerT], _HandlerT]:
        def register(handler: _HandlerT) -> _HandlerT:
            for router in (self.plain, self.of_namespaces):
                router.add(method, path, rights, hot=hot, change=change, **options)(handler)
            return handler

        return register


class RouteTable:
    """All routes of an app."""

    def __init__(self, routers: Iterable[Router]) -> None:
        self.routes = [route for router in routers for route in router.routes]
        self._rights = {(route.method, route.path): route.rights for route in self.routes}

    def rights_of(self, method: str, path: str) -> Rule:
        """The rights of a route, by its template.  Raises MissingRightsError."""
        rights = self._rights.get((method, path))
        if rights is None:
            raise MissingRightsError(f"{method} {path} says nothing of the rights it needs")
        return rights

    def check(self, app: FastAPI) -> None:
        """Raise MissingRightsError if the app has a route without declared rights."""
        for method, path in routes_of(app):
            if path not in PUBLIC_PAGES:
                self.rights_of(method, path)


def routes_of(app: FastAPI) -> list[tuple[str, str]]:
    """Method and path of every route; routes that are not FastAPI's, such as a mount, have no method."""
    found: list[tuple[str, str]] = []
    for context in iter_route_contexts(app.routes):
        route = context.original_route
        methods = sorted(route.methods or ()) if isinstance(route, APIRoute) else [""]
        found += [(method, context.path or repr(route)) for method in methods]
    return found
