"""`entrepot serve` and `entrepot gateway`: settings -> sockets -> store -> listeners, until told to stop."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from entrepot.domain.access.evaluator import is_loopback
from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import Clustered
from entrepot.domain.printable import printable
from entrepot.domain.route import UNIX
from entrepot.gateway.app import Gateway
from entrepot.gateway.clock import SystemClock
from entrepot.gateway.door.kind import listener_names
from entrepot.gateway.log import configure_logging
from entrepot.gateway.log_stream import LogStream
from entrepot.gateway.process import bind_listeners, run_process, settle_memory
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import LoadedSettings, Settings
from entrepot.gateway.store_process import StoreProcess
from entrepot.gateway.stores import open_broker_listener, open_store, open_store_elsewhere, served_number
from entrepot.gateway.workers import run_workers

log = structlog.get_logger(__name__)


def run(loaded: LoadedSettings) -> int:
    """Run `entrepot serve`, listeners and a store; return the process's exit code. It is one process, or gateways in
    front of a process with the store."""
    return run_around_store(loaded) if loaded.settings.cluster.workers > 1 else run_process(loaded, serve)


def run_around_store(loaded: LoadedSettings) -> int:
    """Run `entrepot serve` with the store in a process of its own, for any number of gateways."""
    configure_logging(loaded.settings.log.level, loaded.settings.log.format)
    try:
        with TemporaryDirectory(prefix="entrepot-", ignore_cleanup_errors=True) as directory:  # for this user alone
            store = StoreProcess(loaded, Path(directory))
            return run_workers(store.of_gateways(), listener_names(loaded.settings), serve_gateway, store)
    except OSError as error:
        log.critical("cannot serve: no socket for the store can be made (TMPDIR says where)", error=str(error))
        return 1


def run_gateway(loaded: LoadedSettings) -> int:
    """Run `entrepot gateway`: listeners over a store on other machines, in one process or several."""
    if loaded.settings.cluster.workers > 1:
        return run_workers(loaded, listener_names(loaded.settings), serve_gateway)
    return run_process(loaded, serve_gateway)


async def serve(loaded: LoadedSettings) -> int:
    """Open the store, run the gateway and close the store; return the exit code."""
    settings, clock = loaded.settings, SystemClock()
    sockets = bind_listeners(loaded, (*listener_names(settings), *broker_listener_name(settings)))
    try:
        number = served_number(settings, is_alone=True) if "broker" in sockets else 0
        store = await open_store(settings, clock, number)
        broker = None
        if "broker" in sockets:
            broker = open_broker_listener(settings, store, sockets["broker"], clock)
    except BaseException:
        for listener in sockets.values():
            listener.close()
        raise
    try:
        if broker is not None:
            await broker.start()
        return await _run_listeners(loaded, store, clock, sockets)
    finally:
        if broker is not None:
            await broker.close()
        await store.close()


async def serve_gateway(loaded: LoadedSettings, on_ready: Callable[[], bool] = lambda: True) -> int:
    """Run a gateway over a store elsewhere; `on_ready` is called once all is up, and returns whether to announce it."""
    settings, clock = loaded.settings, SystemClock()
    sockets = bind_listeners(loaded, listener_names(settings))
    try:
        store = await open_store_elsewhere(settings, clock)
    except BaseException:
        for listener in sockets.values():
            listener.close()
        raise
    try:
        return await _run_listeners(loaded, store, clock, sockets, on_ready)
    finally:
        await store.close()


def broker_listener_name(settings: Settings) -> tuple[str, ...]:
    """The listener for gateways, if enabled."""
    return ("broker",) if settings.broker.enabled else ()


async def _run_listeners(
    loaded: LoadedSettings,
    store: Store,
    clock: Clock,
    sockets: dict[str, socket.socket],
    on_ready: Callable[[], bool] = lambda: True,
) -> int:
    settings = loaded.settings
    gateway = Gateway(settings, store, clock, sockets, loaded.origins)
    await gateway.start(settle_memory)
    _warn_of_nobody(settings, gateway.security)
    is_told = on_ready()
    if is_told:
        scheme = "https" if settings.http.tls_certificate else "http"
        _announce(_where_it_is_kept(settings, store), gateway.addresses, scheme, gateway.security)
    code = await gateway.until_stopped()
    await gateway.drain()
    log.info("stopped", exit_code=code)
    return code


def _warn_of_nobody(settings: Settings, security: Security) -> None:
    """Warn of listeners for other machines that let nobody in: that is seldom meant."""
    host = settings.server.host
    if host == "localhost" or is_loopback(host) or security.setup_token.value is None:
        return
    if settings.security.anonymous != "always":  # the security object warns of that
        log.warning("clients of other machines are refused: no user is defined (docs/security.md)", host=host)


def _where_it_is_kept(settings: Settings, store: Store) -> str:
    """The place of the data, for people."""
    if isinstance(store, Clustered) and not any(each.startswith(UNIX) for each in settings.cluster.brokers):
        return f"{len(store.topology.topics())} topics on brokers elsewhere"
    return f"data in {settings.store.data_dir}"


def _announce(kept: str, addresses: dict[str, str], scheme: str, security: Security) -> None:
    """Show the listeners, and commands to try."""
    where = "  ".join(f"{door}://{address}" for door, address in addresses.items())
    lines = ["", f"Entrepôt is ready: {where}  ({kept})"]
    if "http" in addresses:
        http = f"{scheme}://{addresses['http']}"
        lines += [
            f"Look at it: {http}/dashboard/",
            "Try, in another terminal:",
            f"  curl -X POST {http}/topics/factory:publish -H 'ce-specversion: 1.0' -H 'ce-id: 1' -H 'ce-type: hello' "
            "-H 'ce-source: /me' -H 'content-type: application/json' -d '{\"temp\": 21}'",
            f"  curl -X POST '{http}/topics/factory/eventsubscriptions/workers:receive?maxWaitTime=0'",
            f"  {Path(sys.argv[0]).parent}/entrepot topic list --server {http}",
        ]
        if (token := security.setup_token).value is not None:
            shown = f": {token.value}" if token.path is None else f" in {token.path}"
            lines.append(f"No user is defined. To define the first one, show the setup token{shown}")
    if (admin := security.initial_admin).made_up is not None:
        shown = f": {admin.made_up}" if admin.path is None else f" in {admin.path}"
        lines.append(f"The first user is {admin.name}, with the password{shown}")
    LogStream(sys.stdout).write("".join(f"{printable(line)}\n" for line in lines))
