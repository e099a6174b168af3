"""The composition root: puts the parts together, starts them, and stops them in order.

settings -> store -> verbs (topology, send) -> delivery hub -> frontends -> listeners -> ready
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import structlog
import uvloop

from domain.clock import Clock
from domain.errors import EntrepotError
from domain.ports import Store
from gateway.clock import SystemClock
from gateway.deadlines import DeadlineWheel
from gateway.delivery.hub import DeliveryHub
from gateway.frontends.mqtt.frontend import MqttFrontend
from gateway.listener import TcpListener, address_of, bind
from gateway.log import configure_logging
from gateway.messaging.membership import Memberships
from gateway.messaging.send import Sender
from gateway.messaging.topology import Topology
from gateway.settings import LoadedSettings, Settings

if TYPE_CHECKING:
    from gateway.http.server import HttpListener

GC_THRESHOLD = 50_000
"""Allocations before the collector looks: messages die by reference count, the rest lives long."""

log = structlog.get_logger(__name__)


def run(loaded: LoadedSettings) -> int:
    """Serve until told to stop; returns the process's exit code."""
    configure_logging(loaded.settings.log.level, loaded.settings.log.format)
    _raise_file_limit()
    try:
        return uvloop.run(serve(loaded))
    except (EntrepotError, OSError) as error:
        log.critical("cannot serve", error=str(error))
        return 1


def _raise_file_limit() -> None:
    """Every connection is a file: take as many as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def serve(loaded: LoadedSettings) -> int:
    """Everything between opening the store and closing it; returns the exit code."""
    clock = SystemClock()
    sockets = _bind_doors(loaded)
    try:
        store = await open_store(loaded.settings, clock)
    except BaseException:
        for listener in sockets.values():
            listener.close()
        raise
    gateway = Gateway(loaded.settings, store, clock, sockets)
    try:
        await gateway.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 100)
        _announce(loaded.settings, gateway.addresses)
        code = await gateway.until_stopped()
        await gateway.drain()
    finally:
        await store.close()
    log.info("stopped", exit_code=code)
    return code


async def open_store(settings: Settings, clock: Clock) -> Store:
    """The face of the ports that the settings name."""
    if settings.store.kind == "memory":
        from store_client.memory import MemoryStore

        return MemoryStore(
            clock,
            max_message_bytes=settings.store.max_message_bytes,
            group_defaults=settings.groups.new_group("defaults"),
            hold_back_limit=settings.store.hold_back_messages,
            check_after_ms=int(settings.store.transaction_check_after_seconds * 1000),
            check_interval_ms=int(settings.store.transaction_check_interval_seconds * 1000),
            max_checks=settings.store.transaction_max_checks,
        )
    from store_client.embedded import embedded_settings, open_embedded

    kept = settings.store
    return await open_embedded(
        embedded_settings(
            kept.data_dir,
            segment_size_bytes=kept.segment_size_bytes,
            preallocate_bytes=kept.preallocate_bytes,
            reserve_bytes=kept.reserve_bytes,
            flush_async=kept.flush == "async",
            linger_ms=kept.flush_linger_us_max / 1000,
            max_unconfirmed_bytes=kept.max_unconfirmed_bytes,
            max_message_bytes=kept.max_message_bytes,
            max_in_flight_per_queue=kept.max_in_flight_per_queue,
            hold_back_limit=kept.hold_back_messages,
            retention_seconds=kept.retention_seconds,
            retention_interval_seconds=kept.retention_interval_seconds,
            free_bytes=(kept.disk_warn_free_bytes, kept.disk_refuse_free_bytes, kept.disk_emergency_free_bytes),
            index_sizes=(kept.index_slots, kept.index_entries),
            transaction_check_after_ms=int(kept.transaction_check_after_seconds * 1000),
            transaction_check_interval_ms=int(kept.transaction_check_interval_seconds * 1000),
            transaction_max_checks=kept.transaction_max_checks,
            checkpoint_interval_bytes=kept.checkpoint_interval_bytes,
            checkpoint_interval_seconds=kept.checkpoint_interval_seconds,
            group_defaults=settings.groups.new_group("defaults"),
        ),
        clock,
    )


class Gateway:
    """The doors over one store."""

    def __init__(self, settings: Settings, store: Store, clock: Clock, sockets: dict[str, socket.socket]) -> None:
        self.settings = settings
        self.store = store
        self.addresses = {door: address_of(listener) for door, listener in sockets.items()}
        self._loop = asyncio.get_running_loop()
        self._wheel = DeadlineWheel(self._loop)
        self._stop: asyncio.Future[int] = self._loop.create_future()
        self._is_ready = False
        topology = Topology(store, settings.topics)
        self.sender = Sender(store, topology, clock)
        self.memberships = Memberships(store, clock, settings.groups)
        self.hub = DeliveryHub(store, clock)
        self.mqtt = MqttFrontend(store, self.sender, topology, self.hub, settings, clock)
        self._mqtt_listener: TcpListener | None = None
        self._http_listener: HttpListener | None = None
        if "mqtt" in sockets:
            self._mqtt_listener = TcpListener(
                sockets["mqtt"], self.mqtt.converse, self._wheel, settings.mqtt.write_buffer_bytes
            )
        if "http" in sockets:
            self._http_listener = self._build_http(sockets["http"], topology, clock)

    def _build_http(self, listener: socket.socket, topology: Topology, clock: Clock) -> HttpListener:
        """The HTTP door; its libraries are loaded only where it is open."""
        from gateway.http.app import build_app
        from gateway.http.context import HttpContext
        from gateway.http.server import HttpListener

        context = HttpContext(
            store=self.store,
            sender=self.sender,
            topology=topology,
            memberships=self.memberships,
            settings=self.settings,
            clock=clock,
            is_ready=lambda: self._is_ready,
            counters={
                "entrepot_mqtt_deliveries": ("Messages sent to MQTT subscribers", lambda: self.hub.delivered),
                "entrepot_mqtt_dropped": ("QoS 0 messages that slow subscribers missed", lambda: self.mqtt.dropped),
            },
            connections={
                "mqtt": lambda: self.mqtt.connections,
                "http": lambda: self._http_listener.connections if self._http_listener is not None else 0,
            },
        )
        return HttpListener(build_app(context), listener, self.settings.http)

    async def start(self) -> None:
        """Open the doors; the ready file comes last."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled, number)
        if self._mqtt_listener is not None:
            await self._mqtt_listener.start()
        if self._http_listener is not None:
            await self._http_listener.start()
        self._is_ready = True
        for door, address in self.addresses.items():
            log.info("listening", door=door, address=address)
        if self.settings.server.ready_file is not None:
            write_ready_file(self.settings.server.ready_file, self.addresses)

    async def until_stopped(self) -> int:
        """Wait for a signal (0) or for the store to fail (1)."""
        while not self._stop.done():
            await asyncio.wait((self._stop,), timeout=0.2)
            if self.store.failure is not None and not self._stop.done():
                log.critical("stopping: the store has failed", error=self.store.failure.message)
                self._stop.set_result(1)
        return self._stop.result()

    async def drain(self) -> None:
        """Answer who waits, let what is under way finish, say goodbye; at most `drain_seconds`."""
        self._is_ready = False
        end = self._loop.time() + self.settings.server.drain_seconds
        if self.settings.server.ready_file is not None:
            self.settings.server.ready_file.unlink(missing_ok=True)
        self.store.release_waiting()
        self.memberships.release_waiting()
        if self._mqtt_listener is not None:
            self._mqtt_listener.stop_accepting()
        await self._settle(end)
        self.mqtt.shut_down()
        await self._settle(end)  # the wills
        if self._http_listener is not None:
            await self._http_listener.stop(max(end - self._loop.time(), 0.1))
        self._wheel.close()

    async def _settle(self, end: float) -> None:
        with contextlib.suppress(TimeoutError, EntrepotError):
            async with asyncio.timeout_at(end):
                if self.store.failure is None:
                    await self.sender.settle()

    def _signalled(self, number: int) -> None:
        if self._stop.done():
            os._exit(128 + number)
        log.info("draining", signal=signal.Signals(number).name)
        self._stop.set_result(0)


def _bind_doors(loaded: LoadedSettings) -> dict[str, socket.socket]:
    """A listening socket for each open door.  Raises OSError naming the address that cannot be had."""
    settings = loaded.settings
    sockets: dict[str, socket.socket] = {}
    try:
        for door, is_open in (("mqtt", settings.mqtt.enabled), ("http", settings.http.enabled)):
            if is_open:
                sockets[door] = bind(settings.server.host, loaded.listener_port(door))
    except OSError:
        for listener in sockets.values():
            listener.close()
        raise
    return sockets


def write_ready_file(path: Path, addresses: dict[str, str]) -> None:
    """Door -> address as JSON, put in place whole."""
    draft = path.with_name(path.name + ".draft")
    draft.write_bytes(orjson.dumps(addresses))
    draft.replace(path)


def _announce(settings: Settings, addresses: dict[str, str]) -> None:
    """Tell a person what listens where, and what to try."""
    where = "  ".join(f"{door}://{address}" for door, address in addresses.items())
    kept = f"data in {settings.store.data_dir}" if settings.store.kind == "embedded" else "nothing is kept (memory)"
    lines = [f"\nEntrepôt is ready: {where}  ({kept})"]
    if "http" in addresses:
        http = f"http://{addresses['http']}"
        lines += [
            "Try, in another terminal:",
            f"  curl -X POST {http}/topics/factory:publish -H 'ce-specversion: 1.0' -H 'ce-id: 1' -H 'ce-type: hello' "
            "-H 'ce-source: /me' -H 'content-type: application/json' -d '{\"temp\": 21}'",
            f"  curl -X POST '{http}/topics/factory/eventsubscriptions/workers:receive?maxWaitTime=0'",
            f"  {Path(sys.argv[0]).parent}/entrepot topic list --server {http}",
        ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()
