"""A gateway inside another program, and routers of others beside its operations.

    gateway = EmbeddedGateway({"store.data_dir": "data"})
    app = FastAPI(lifespan=gateway.lifespan)
    app.mount("/mq", gateway)

The program serves HTTP itself: no HTTP listener is opened. The other listeners are, where settings enable them.

A package adds routers to every gateway that it is installed beside: its entry points in the group `entrepot.routes`
name an `APIRouter` each. Such a route asks who calls, and for rights, by `Caller`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Depends, Request

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.gateway.app import Gateway
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.door.kind import listener_names
from entrepot.gateway.process import bind_listeners
from entrepot.gateway.settings import Settings, load_settings
from entrepot.gateway.stores import open_store, open_store_elsewhere

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.http.requests.access import HttpAccess
    from entrepot.gateway.http.requests.asgi import AsgiApp

HTTP: Final = "http"
Scope = MutableMapping[str, Any]
_Call = Callable[..., Awaitable[Any]]


class EmbeddedGateway:
    """An ASGI application with all operations of a gateway, between the two ends of its `lifespan`."""

    def __init__(self, settings: Mapping[str, object] = MappingProxyType({})) -> None:
        """`settings`: by their names with dots, before those of the environment and of the file. With brokers or name
        servers they are those of `entrepot gateway`, else of `entrepot serve`. Raises SettingsError."""
        self._loaded = load_settings(flags=dict(settings))
        self._app: AsgiApp | None = None

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Open the store and the listeners; close them at the end, when what is under way is answered. Raises what
        `entrepot serve` ends with."""
        settings, clock = self._loaded.settings, SystemClock()
        sockets = bind_listeners(self._loaded, tuple(name for name in listener_names(settings) if name != HTTP))
        try:
            store = await _opened(settings, clock)
        except BaseException:
            for listener in sockets.values():
                listener.close()
            raise
        gateway = Gateway(settings, store, clock, sockets, is_embedded=True)
        try:
            await gateway.start()
            self._app = gateway.http_app
            yield
        finally:
            self._app = None
            try:
                await gateway.drain()
            finally:
                await store.close()

    async def __call__(self, scope: Scope, receive: _Call, send: _Call) -> None:
        """Serve one request or WebSocket, at whatever path the application is mounted."""
        if self._app is None:
            raise RuntimeError("the gateway is not open: the program enters its lifespan")
        await self._app(_below(scope), receive, send)


async def _opened(settings: Settings, clock: SystemClock) -> Store:
    cluster = settings.cluster
    if cluster.brokers or cluster.name_servers or settings.rocketmq.name_servers:
        return await open_store_elsewhere(settings, clock)
    return await open_store(settings, clock)


def _below(scope: Scope) -> Scope:
    """Return the scope as it is below the path at which the application is mounted."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    if not root or not path.startswith(root):
        return scope
    raw = scope.get("raw_path")
    below = raw[len(root.encode()) :] if raw is not None and raw.startswith(root.encode()) else raw
    return {**scope, "path": path[len(root) :] or "/", "raw_path": below or b"/"}


class Caller:
    """The caller of a route, and its rights: `caller: Calling` as a parameter of the route."""

    def __init__(self, principal: Principal, access: HttpAccess) -> None:
        self.principal, self._access = principal, access

    def check(self, action: Action, kind: ResourceType, name: str) -> None:
        """Raise FORBIDDEN unless the action on a resource is allowed."""
        self._access.check(self.principal, action, kind, name)


async def calling(request: Request) -> Caller:
    """Return the caller of a route. Raises UNAUTHORIZED, FORBIDDEN, UNAVAILABLE: the answer is a problem."""
    access: HttpAccess = request.app.state.access
    return Caller(await access.principal(request.scope), access)


Calling = Annotated[Caller, Depends(calling)]
