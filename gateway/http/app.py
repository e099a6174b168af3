"""The ASGI application: the table of operations first, everything else by FastAPI.

ADR 79: an operation is written once. Invariant: the table is asked first, so a path of an operation is never served
without its rights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from entrepot.gateway.door.parts import Parts
from entrepot.gateway.http.dashboard.pages import dashboard_routes
from entrepot.gateway.http.documents.page import page_routes
from entrepot.gateway.http.nouns import NounObjects
from entrepot.gateway.http.parts.event_parts import EventParts
from entrepot.gateway.http.parts.shown_doors import ShownDoors
from entrepot.gateway.http.peer_listener import PeerListener
from entrepot.gateway.http.requests.access import HttpAccess, kept_private
from entrepot.gateway.http.requests.asgi import AsgiApp, Receive, Scope, Send
from entrepot.gateway.http.requests.at_once import PublishAtOnce
from entrepot.gateway.http.requests.changes import AuditedChanges
from entrepot.gateway.http.requests.methods import PathMethods, as_get
from entrepot.gateway.http.requests.page_guard import guarded
from entrepot.gateway.http.requests.problems import install
from entrepot.gateway.http.requests.publish import PublishingAtOnce
from entrepot.gateway.http.requests.rabbitmq_paths import drop_last_slash
from entrepot.gateway.http.requests.request_times import ROUTED, RequestTimes, TimedPublish
from entrepot.gateway.http.requests.serving import ServedOperations
from entrepot.gateway.http.streaming.event_socket import EventSockets
from entrepot.gateway.operations.all_nouns import TABLE
from entrepot.gateway.operations.nouns.publishing import Publishing
from entrepot.gateway.operations.overview.sampling import Sampler
from entrepot.gateway.settings.version import own_version
from entrepot.gateway.transport.web_origin import WebOrigins

ROUTES: Final = "entrepot.routes"
"""Group of entry points: each names an `APIRouter`, whose routes stand after all operations."""


@dataclass(frozen=True)
class HttpApp:
    """The application.  `asgi` handles every request; `publish`, if any, is asked first and takes publishes that need
    no waiting.  `sampler`: its work is started and closed with the listener.  `on_drain`: ends endless answers."""

    asgi: AsgiApp
    publish: PublishAtOnce | None
    publishing: Publishing
    sampler: Sampler
    sockets: EventSockets
    times: RequestTimes
    on_drain: Sequence[Callable[[], None]]


def build_app(parts: Parts, events: EventParts, beside: PeerListener, doors: ShownDoors) -> HttpApp:
    """Build the application; call it on the event loop that will serve it."""
    settings, times = parts.settings, RequestTimes()
    origins = WebOrigins(settings.http.allowed_origins, settings.hosts)
    access = HttpAccess(parts.security, parts.clock, origins, beside.logins)
    nouns = NounObjects(parts, events, beside, doors, access, times)
    publishing, overview, sockets = nouns.publishing(), nouns.overview(), EventSockets(parts, access, origins)
    changes = AuditedChanges(parts.security.audit, TABLE.operations)
    objects = nouns.all(overview, publishing)
    operations = ServedOperations(objects, TABLE, parts.store, access, changes, settings)
    app = routed(operations, pages(access), sockets)
    asgi = times.timed(with_origins(guarded(app, origins), settings.http.allowed_origins))
    proxies, publish = settings.http.trusted_proxies, None
    if proxies:  # who asks is in a header then, which the fast path does not read
        asgi = ProxyHeadersMiddleware(asgi, trusted_hosts=proxies)  # type: ignore[arg-type,assignment]
    else:
        publish = TimedPublish(PublishingAtOnce(publishing, access, parts.sender), times)
    return HttpApp(asgi, publish, publishing, overview.sampler, sockets, times, nouns.on_drain)


def routed(operations: ServedOperations, rest: FastAPI, sockets: AsgiApp) -> AsgiApp:
    """Return the app that gives each request to the table, or to the pages, or refuses it."""
    methods = PathMethods(rest, TABLE)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await sockets(scope, receive, send)
            return
        if scope["raw_path"].endswith(b"/"):
            drop_last_slash(scope)
        send = kept_private(scope, send)
        asked, answered = as_get(scope, send) if scope["method"] == "HEAD" else (scope, send)
        if asked is not scope:
            scope[ROUTED] = asked
        operation = operations.find(asked)
        if operation is not None:
            await operations.answer(operation, asked, receive, answered)
        elif scope["method"] == "OPTIONS":
            await methods.answer_options(scope, send)
        elif not await methods.refuse(scope, answered):
            try:
                await rest(asked, receive, answered)
            except Exception:  # noqa: BLE001 - already logged and answered by the handler; raised again
                return

    return app


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


def pages(access: HttpAccess | None = None) -> FastAPI:
    """Build the pages that everybody may read, which are the dashboard's files and the documentation of all operations;
    and the routers of packages that are installed beside.  `access`: what those ask."""
    app = FastAPI(title="Entrepôt", version=own_version(), redirect_slashes=False, docs_url=None, redoc_url=None)
    app.include_router(page_routes())
    app.include_router(dashboard_routes())
    for entry in entry_points(group=ROUTES):
        app.include_router(entry.load())
    app.state.access = access
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not document:
            from entrepot.gateway.http.documents.openapi import document_of  # on demand, because of its large tables

            document.update(document_of(app.title, app.version))
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    install(app)
    return app
