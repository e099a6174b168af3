"""Common parts of every process: logging, limits, sockets, signals, the ready file."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import structlog
import uvloop

from entrepot.domain.descriptors import descriptors
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.children import ProofOfLife
from entrepot.gateway.log import configure_logging
from entrepot.gateway.service_notification import (
    keep_alive,
    notify_alive,
    notify_ready,
    notify_status,
    notify_stopping,
    watchdog_seconds,
)
from entrepot.gateway.settings import LoadedSettings, port_key
from entrepot.gateway.transport.binding import CannotListenError, bind, reserve

GC_THRESHOLDS = (5000, 0, 600)
"""Thresholds of the garbage collector, a generation each.

Messages die by their reference count, the rest lives long: what the collector looks at is nearly all alive.  So it
takes small steps, of a millisecond: with 50,000 young objects one took 7 ms, of which all clients hear.  Still smaller
ones would look at messages under way, and cost 5 % of the throughput.
"""

log = structlog.get_logger(__name__)


def run_process(
    loaded: LoadedSettings, main: Callable[[LoadedSettings], Awaitable[int]], proof: ProofOfLife | None = None
) -> int:
    """Run until told to stop; return the process's exit code. `proof`: of a child, which its parent looks at."""
    configure_logging(loaded.settings.log.level, loaded.settings.log.format)
    _raise_file_limit()
    notify_status("starting")

    async def run() -> int:
        keep_alive(watchdog_seconds(), notify_alive)
        if proof is not None:
            keep_alive(proof.seconds, proof.give)
        return await main(loaded)

    try:
        return uvloop.run(run())
    except (EntrepotError, OSError) as error:
        log.critical("cannot serve", error=str(error))
        return 1


def _raise_file_limit() -> None:
    """Raise the limit of open files as far as the system allows: every connection is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found = descriptors()
    if found.limit is not None:
        log.info("open files are limited", limit=found.limit, connections=found.limit - found.reserve)


def settle_memory() -> None:
    """Exclude all present objects from garbage collection: they stay. Of those of a start one in a hundred is garbage,
    and to look for it would cost a tenth of a second."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def bind_listeners(
    loaded: LoadedSettings, names: tuple[str, ...], *, is_for_workers: bool = False
) -> dict[str, socket.socket]:
    """Return a socket for each listener. `is_for_workers`: they are reserved, and none listens.  Raises
    CannotListenError naming every address that cannot be bound, and its setting."""
    sockets: dict[str, socket.socket] = {}
    failures: list[CannotListenError] = []
    is_shared = loaded.settings.cluster.workers > 1
    for name in names:
        take = reserve if is_for_workers else bind
        try:
            sockets[name] = take(loaded.settings.server.host, loaded.listener_port(name), is_shared=is_shared)
        except CannotListenError as error:
            key = "server.host" if error.is_of_host else port_key(name)
            failures.append(CannotListenError(error.errno, f"{error} ({key})"))
    if failures:
        for listener in sockets.values():
            listener.close()
        told = dict.fromkeys(str(failure) for failure in failures)
        raise CannotListenError(failures[0].errno, "; ".join(told))
    return sockets


class StopSignal:
    """The request to stop, with its exit code. A second signal ends the process at once."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._code: asyncio.Future[int] = self._loop.create_future()
        self._code.add_done_callback(lambda code: notify_stopping(code.result()))
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled, number)

    def give(self, code: int) -> None:
        """Stop with an exit code; the first one counts."""
        if not self._code.done():
            self._code.set_result(code)

    def give_at_end(self, stopped: asyncio.Future[Any], words: str) -> None:
        """Stop when a part has ended by itself, and log its error with `words` if it has one."""

        def ended(done: asyncio.Future[EntrepotError | None]) -> None:
            if not done.cancelled():
                why = done.result()
                self.give(0 if why is None else 1)
                if why is not None:
                    log.critical(words, error=why.message)

        stopped.add_done_callback(ended)

    async def wait(self, store: Store | None = None) -> int:
        """Return the exit code, which is 1 where the store fails meanwhile."""
        while not (await asyncio.wait((self._code,), timeout=None if store is None else 0.2))[0]:
            if store is not None and store.condition.failure is not None:
                self.give(1)
                log.critical("stopping: the store has failed", error=store.condition.failure.message)
        return self._code.result()

    def _signalled(self, number: int) -> None:
        if self._code.done():
            os._exit(128 + number)
        self._code.set_result(0)
        log.info("draining", signal=signal.Signals(number).name)


def announce(ready_file: Path | None, addresses: dict[str, str]) -> None:
    """Say that every listener is open: to the service manager, and in the ready file, as JSON by listener, at once."""
    if ready_file is not None:
        draft = ready_file.with_name(ready_file.name + ".draft")
        draft.write_bytes(orjson.dumps(addresses))
        draft.replace(ready_file)
    notify_ready(addresses)


def withdraw(ready_file: Path | None) -> None:
    """Take the ready file back: no more is taken in."""
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
