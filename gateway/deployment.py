"""The processes of a deployment without listeners for clients: broker, name server, controller."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import structlog

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.process import StopSignal, announce, bind_listeners, run_process, settle_memory, withdraw
from entrepot.gateway.settings import LoadedSettings, Settings
from entrepot.gateway.stores import (
    make_controller,
    make_name_server,
    open_broker_listener,
    open_replica,
    open_store,
    served_number,
)
from entrepot.gateway.transport.binding import address_of

if TYPE_CHECKING:
    from entrepot.store_client.embedded import ServedController

Readiness = AbstractContextManager[None]
"""Block that lasts as long as the process is up."""
log = structlog.get_logger(__name__)


async def serve_broker(loaded: LoadedSettings) -> int:
    """Run a store and its port for gateways until told to stop, or until it has left its cluster."""
    [listener] = bind_listeners(loaded, ("broker",)).values()
    ready = _ready(loaded.settings, {"broker": address_of(listener)})
    if loaded.settings.broker.replica_id:
        return await _serve_replica(loaded.settings, listener, ready)
    return await _serve(loaded.settings, listener, ready, is_alone=False)


async def serve_store(loaded: LoadedSettings, listener: socket.socket, on_ready: Callable[[], object]) -> int:
    """Run the only store, with a port for the workers beside it; `on_ready` is called when it is open."""
    return await _serve(loaded.settings, listener, _told(on_ready), is_alone=True)


async def _serve(settings: Settings, listener: socket.socket, ready: Readiness, *, is_alone: bool) -> int:
    clock = SystemClock()
    store = await open_store(settings, clock, served_number(settings, is_alone=is_alone))
    try:
        broker = open_broker_listener(settings, store, listener, clock, is_alone=is_alone)
        stop = StopSignal()
        await broker.start()
        settle_memory()
        with ready:
            stop.give_at_end(broker.stopped, "stopping: a name server refuses this broker")
            code = await stop.wait(store)
        await broker.close()
    finally:
        await store.close()
    log.info("stopped", exit_code=code)
    return code


async def _serve_replica(settings: Settings, listener: socket.socket, ready: Readiness) -> int:
    replica = await open_replica(settings, listener, SystemClock())
    stop = StopSignal()
    try:
        await replica.start()
        settle_memory()
        with ready:
            stop.give_at_end(replica.stopped, "stopping: the replica cannot go on")
            code = await stop.wait()
    finally:
        await replica.close()
    log.info("stopped", exit_code=code)
    return code


async def serve_name_server(loaded: LoadedSettings) -> int:
    """Answer routes until told to stop; nothing is kept, except by its controller, if it has one.  Routes go on if that
    cannot."""
    settings = loaded.settings
    [listener] = bind_listeners(loaded, ("nameserver",)).values()
    server = make_name_server(settings, listener)
    controller = make_controller(settings, server, SystemClock()) if settings.controller.id else None
    await server.start()
    stop = StopSignal()
    try:
        with _ready(settings, {"nameserver": address_of(listener)}):
            if controller is not None:
                controller.stopped.add_done_callback(_tell_stopped)
                await controller.start()
            code = await stop.wait()
    finally:
        await server.close()
        if controller is not None:
            await controller.close()
    log.info("stopped", exit_code=code)
    return code


def _tell_stopped(stopped: asyncio.Future[EntrepotError]) -> None:
    if not stopped.cancelled():
        log.critical("the controller cannot go on; the name server does", error=stopped.result().message)


async def serve_controller(loaded: LoadedSettings) -> int:
    """Run a controller by itself until told to stop."""
    [listener] = bind_listeners(loaded, ("controller",)).values()
    controller = make_controller(loaded.settings, listener, SystemClock())
    stop = StopSignal()
    try:
        with _ready(loaded.settings, {"controller": address_of(listener)}):
            return await _run_controller(controller, stop)
    finally:
        await controller.close()


async def _run_controller(controller: ServedController, stop: StopSignal) -> int:
    """Run until told to stop, or until it cannot go on; return the exit code."""
    stop.give_at_end(controller.stopped, "stopping: the controller cannot go on")
    await controller.start()
    code = await stop.wait()
    log.info("stopped", exit_code=code)
    return code


@contextmanager
def _told(on_ready: Callable[[], object]) -> Iterator[None]:
    on_ready()
    yield


@contextmanager
def _ready(settings: Settings, addresses: dict[str, str]) -> Iterator[None]:
    """Announce that the process is up, and withdraw it at the end."""
    for door, address in addresses.items():
        log.info("listening", door=door, address=address)
    announce(settings.server.ready_file, addresses)
    try:
        yield
    finally:
        withdraw(settings.server.ready_file)


run_broker = partial(run_process, main=serve_broker)
run_name_server = partial(run_process, main=serve_name_server)
run_controller = partial(run_process, main=serve_controller)
"""Run `entrepot broker`, `nameserver` or `controller`; return the process's exit code."""
