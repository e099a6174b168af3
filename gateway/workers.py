"""Workers: several gateway processes that share the ports of one machine (SO_REUSEPORT).

The kernel spreads connections over them.  They know nothing of each other: each is a gateway like those on other
machines.  The parent reserves the ports, starts the workers, starts one anew that ends, and passes the stop on.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from gateway.listener import address_of
from gateway.log import configure_logging
from gateway.process import bind_doors, run_process, write_ready_file
from gateway.settings import LoadedSettings

GRACE_SECONDS: Final = 5.0
STOPS: Final = (signal.SIGTERM, signal.SIGINT)
RESTART_SECONDS: Final = 1.0
"""Shortest time between two starts of one worker."""
Main = Callable[[LoadedSettings, Callable[[], object]], Awaitable[int]]

log = structlog.get_logger(__name__)


def run_workers(loaded: LoadedSettings, doors: tuple[str, ...], main: Main) -> int:
    """Run until told to stop; returns the process's exit code: 1 if a worker could not be started at all."""
    configure_logging(loaded.settings.log.level, loaded.settings.log.format)
    try:
        reserved = bind_doors(loaded, doors, is_for_workers=True)
    except OSError as error:
        log.critical("cannot serve", error=str(error))
        return 1
    try:
        ports = {door: listener.getsockname()[1] for door, listener in reserved.items()}
        addresses = {door: address_of(listener) for door, listener in reserved.items()}
        return _Workers(loaded, ports, addresses, main).run()
    finally:
        for listener in reserved.values():
            listener.close()


class _Workers:
    """The parent's side."""

    def __init__(self, loaded: LoadedSettings, ports: dict[str, int], addresses: dict[str, str], main: Main) -> None:
        self._loaded, self._ports, self._addresses, self._main = loaded, ports, addresses, main
        self._pids: dict[int, float] = {}
        self._told: set[int] = set()
        self._ready: set[int] = set()
        self._is_stopping = False
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        if self._has_certificates():
            signal.signal(signal.SIGHUP, self._reload)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for _ in range(self._loaded.settings.cluster.workers):
            if not self._start():
                self._stop()
                self._reap_all()
                return 1
        ready_file = self._loaded.settings.server.ready_file
        if ready_file is not None:
            write_ready_file(ready_file, self._addresses)
        log.info("workers are ready", count=len(self._pids), **self._addresses)
        while not self._is_stopping:
            select.select([self._wake_read], [], [], 1.0)
            self._drain_wakes()
            self._restart_ended()
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
        self._reap_all()
        return 0

    def _start(self) -> bool:
        """Start a worker and wait until it is ready; says whether it is."""
        ready_read, ready_write = os.pipe2(os.O_CLOEXEC)
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # until the worker is known, and has handlers of its own
        pid = os.fork()
        if pid == 0:
            os.close(ready_read)
            code = 1
            try:
                code = self._be_worker(ready_write)
            finally:
                os._exit(code)
        os.close(ready_write)
        self._pids[pid] = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        try:
            is_ready = os.read(ready_read, 1) == b"1"  # nothing but the end of the pipe where it has ended
            if is_ready:
                self._ready.add(pid)
            return is_ready
        finally:
            os.close(ready_read)

    def _be_worker(self, ready: int) -> int:
        os.setpgid(0, 0)  # a terminal's Ctrl-C is the parent's to pass on
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if self._has_certificates() else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        tree = self._loaded.with_ports(self._ports)
        server = tree.server.model_copy(update={"ready_file": None, "free_ports": False})
        mine = LoadedSettings(tree.model_copy(update={"server": server}), self._loaded.origins)
        return run_process(mine, lambda loaded: self._main(loaded, lambda: os.write(ready, b"1")))

    def _restart_ended(self) -> None:
        for pid in list(self._pids):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found and not self._is_stopping:
                started = self._pids.pop(pid)
                self._ready.discard(pid)
                log.error("a worker has ended", pid=pid, code=os.waitstatus_to_exitcode(status))
                again = started + RESTART_SECONDS
                while time.monotonic() < again and not self._is_stopping:
                    time.sleep(0.05)
                if not self._is_stopping:
                    self._start()

    def _drain_wakes(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def _stop(self, number: int = signal.SIGTERM, frame: object = None) -> None:
        self._is_stopping = True
        for pid in self._pids.keys() - self._told:  # a second signal would cut its draining short
            self._told.add(pid)
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue

    def _has_certificates(self) -> bool:
        """Whether workers take SIGHUP for a word about certificates, and not for their end."""
        settings = self._loaded.settings
        has_grpc = "grpc" in self._ports and settings.grpc.tls != "off"
        return (
            has_grpc
            or settings.http.tls_certificate is not None
            or not {"mqtts", "wss", "amqps"}.isdisjoint(self._ports)
        )

    def _reload(self, number: int, frame: object) -> None:
        """Workers that are ready read their certificates anew; one that is starting reads them anyway."""
        for pid in self._ready:
            try:
                os.kill(pid, signal.SIGHUP)
            except ProcessLookupError:
                continue

    def _reap_all(self) -> None:
        """Wait for all, and insist when they take longer than they may."""
        end = time.monotonic() + self._loaded.settings.server.drain_seconds + GRACE_SECONDS
        self._stop()
        while self._pids:
            for pid in list(self._pids):
                found, _ = os.waitpid(pid, os.WNOHANG)
                if found:
                    del self._pids[pid]
                elif time.monotonic() > end:
                    log.error("a worker does not end", pid=pid)
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
