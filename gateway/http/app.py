"""The ASGI application: hot routes first, everything else by FastAPI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from entrepot.gateway.http.access import HttpAccess, kept_private
from entrepot.gateway.http.asgi import AsgiApp, Receive, Scope, Send, routable
from entrepot.gateway.http.at_once import PublishAtOnce
from entrepot.gateway.http.changes import AuditedChanges
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.dashboard.pages import dashboard_routes
from entrepot.gateway.http.documents.page import page_routes
from entrepot.gateway.http.hot_routes import HotRoutes
from entrepot.gateway.http.methods import RouteMethods, as_get
from entrepot.gateway.http.nouns import objects_of, overview_of
from entrepot.gateway.http.page_guard import guarded
from entrepot.gateway.http.problems import install
from entrepot.gateway.http.publish import Publishing, publish_routes
from entrepot.gateway.http.receive import receive_routes
from entrepot.gateway.http.request_times import ROUTED, TimedPublish
from entrepot.gateway.http.rights import DEFAULT_CLUSTER, check_rights
from entrepot.gateway.http.routes import RouteTable
from entrepot.gateway.http.serving import ServedOperations
from entrepot.gateway.http.streaming.event_socket import EventSockets
from entrepot.gateway.operations.nouns import TABLE
from entrepot.gateway.operations.overview.figures import HTTP_PUBLISHES
from entrepot.gateway.operations.overview.sampling import Sampler
from entrepot.gateway.transport.web_origin import WebOrigins
from entrepot.gateway.version import own_version


@dataclass(frozen=True)
class HttpApp:
    """The application.  `asgi` handles every request; `publish`, if any, is asked first and takes publishes that need
    no waiting."""

    asgi: AsgiApp
    publish: PublishAtOnce | None
    sampler: Sampler
    """Its work is started and closed with the listener."""


def build_app(context: HttpContext) -> HttpApp:
    """Build the application; call it on the event loop that will serve it."""
    settings = context.settings
    origins = WebOrigins(settings.http.allowed_origins, settings.hosts)
    access = HttpAccess(context.security, context.clock, origins, context.logins)
    publishing = Publishing(context, access)
    described = ("Events published over HTTP, refused ones included", lambda: publishing.published)
    context.counters[HTTP_PUBLISHES] = described
    overview = overview_of(context)
    rest, table = build_rest(context, access, publishing)
    methods = RouteMethods(rest, TABLE)
    install(rest)
    hot = HotRoutes(context, access, table.routes)
    operations = ServedOperations(
        objects_of(context, access, overview),
        TABLE,
        context.store,
        access,
        cluster=settings.cluster.name or DEFAULT_CLUSTER,
        max_body_bytes=settings.http.max_body_bytes,
    )
    changes = AuditedChanges(context.security.audit, table.routes, TABLE.operations)
    sockets = EventSockets(context, access, origins)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await sockets(scope, receive, send)
            return
        send = kept_private(scope, send)
        found = hot.route_of(scope)
        if found is not None:
            await hot.answer(*found, scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await methods.answer_options(routable(scope), send)
            return
        asked, answered = as_get(scope, send) if scope["method"] == "HEAD" else (scope, send)
        operation = operations.find(asked)
        if asked is not scope:
            scope[ROUTED] = asked
        if operation is not None and not methods.has_verb(asked):
            await operations.answer(operation, asked, receive, answered, changes)
            return
        if await methods.refuse(scope, answered):
            return
        routed, send = routable(asked), answered
        if routed is not scope:
            scope[ROUTED] = routed
        try:
            await rest(routed, receive, changes.noting(routed, send))
        except Exception:  # noqa: BLE001 - already logged and answered by the handler; raised again
            return

    times = context.times
    asgi = times.timed(with_origins(guarded(app, origins), settings.http.allowed_origins))
    proxies, sampler = settings.http.trusted_proxies, overview.sampler
    if proxies:  # who asks is in a header then, which the fast path does not read
        return HttpApp(ProxyHeadersMiddleware(asgi, trusted_hosts=proxies), None, sampler)  # type: ignore[arg-type]
    return HttpApp(asgi, TimedPublish(publishing, times), sampler)


def with_origins(app: AsgiApp, origins: Sequence[str]) -> AsgiApp:
    """The app with CORS for these origins; the app itself where there are none."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=tuple(origins),
        allow_methods=("GET", "POST", "PUT", "DELETE"),
        allow_headers=("*",),
        expose_headers=("*",),
        max_age=600,
    )


def build_rest(context: HttpContext, access: HttpAccess, publishing: Publishing) -> tuple[FastAPI, RouteTable]:
    """Build all routes and their documentation.  Raises MissingRightsError for a route without declared rights."""
    receive, publish = receive_routes(context), publish_routes(publishing)
    routers = (
        publish.plain,
        receive.plain,
        publish.of_namespaces,
        receive.of_namespaces,
    )
    table = RouteTable(routers)

    async def guard(request: Request) -> None:
        await check_rights(context, access, request, table.rights_of(request.method, request.scope["route"].path))

    app = FastAPI(
        title="Entrepôt",
        version=own_version(),
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(guard)],
    )
    app.state.guard = guard
    for router in routers:  # as they are: to include them would make each route a second time
        app.router.routes += router.api.routes
    app.include_router(page_routes())
    app.include_router(dashboard_routes())
    table.check(app)
    generate = app.openapi
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not document:
            from entrepot.gateway.http.documents.openapi import (
                completed,  # imported on demand, because of its large tables
            )

            document.update(completed(generate(), table))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app, table
