"""Workers: several gateway processes that share the ports of one machine (SO_REUSEPORT).

The kernel spreads connections over them. They know nothing of each other: each is a gateway like those on other
machines. The parent reserves the ports, starts the workers, restarts those that end, and passes the stop on. A store
process beside them (`entrepot serve`) is started before them and stopped after them.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog

from entrepot.gateway.children import STOPS, LifeLine, ProofOfLife, start_child
from entrepot.gateway.log import configure_logging
from entrepot.gateway.process import announce, bind_listeners, run_process, withdraw
from entrepot.gateway.service_notification import notify_alive, notify_status, notify_stopping, watchdog_seconds
from entrepot.gateway.settings import LoadedSettings
from entrepot.gateway.store_process import StoreProcess
from entrepot.gateway.transport.binding import address_of

GRACE_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 1.0
"""Longest time between two looks after the children."""
RESTART_SECONDS: Final = 1.0
"""Shortest time between two starts of one worker."""
Main = Callable[[LoadedSettings, Callable[[], bool]], Awaitable[int]]
"""Work of a worker; it calls back once when ready, and gets True if it is the first."""

log = structlog.get_logger(__name__)


def run_workers(loaded: LoadedSettings, names: tuple[str, ...], main: Main, store: StoreProcess | None = None) -> int:
    """Run until told to stop; return the process's exit code. It is 1 if a worker or the store cannot be started at
    all, or if the store gives up."""
    configure_logging(loaded.settings.log.level, loaded.settings.log.format)
    notify_status("starting")
    try:
        reserved = bind_listeners(loaded, names, is_for_workers=True)
    except OSError as error:
        log.critical("cannot serve", error=str(error))
        return 1
    try:
        ports = {name: listener.getsockname()[1] for name, listener in reserved.items()}
        addresses = {name: address_of(listener) for name, listener in reserved.items()}
        return _Workers(loaded, ports, addresses, main, store).run()
    finally:
        for listener in reserved.values():
            listener.close()


class _Workers:
    """The parent of the workers."""

    def __init__(
        self,
        loaded: LoadedSettings,
        ports: dict[str, int],
        addresses: dict[str, str],
        main: Main,
        store: StoreProcess | None = None,
    ) -> None:
        self._loaded, self._ports, self._addresses, self._main = loaded, ports, addresses, main
        self._store = store
        self._line = LifeLine()
        self._pids: dict[int, float] = {}
        self._told: set[int] = set()
        self._ready: dict[int, ProofOfLife] = {}
        self._silence_seconds = watchdog_seconds()
        self._told_alive = 0.0
        self._is_first = True
        self._is_stopping = False
        self._code = 0
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> int:
        for number in STOPS:
            signal.signal(number, self._stop)
        if self._has_certificates():
            signal.signal(signal.SIGHUP, self._reload)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        if self._start_all():
            self._serve()
        elif not self._is_stopping:
            self._code = 1
        notify_stopping(self._code)
        self._reap_all()
        if self._store is not None:
            self._store.stop()
        return self._code

    def _start_all(self) -> bool:
        """Start the store and the workers, one after the other; True if all are ready."""
        if self._store is not None and not self._start_store():
            return False
        return all(not self._is_stopping and self._start() for _ in range(self._loaded.settings.cluster.workers))

    def _serve(self) -> None:
        announce(self._loaded.settings.server.ready_file, self._addresses)
        log.info("workers are ready", count=len(self._pids), **self._addresses)
        pause = LOOK_SECONDS if self._silence_seconds is None else min(LOOK_SECONDS, self._silence_seconds / 4)
        while not self._is_stopping:
            select.select([self._wake_read], [], [], pause)
            self._drain_wakes()
            self._tell_alive()
            self._kill_silent()
            self._restart_store()
            self._restart_ended()
        withdraw(self._loaded.settings.server.ready_file)

    def _tell_alive(self) -> None:
        """Tell the service manager that this process does its work, as often as it asks."""
        now = time.monotonic()
        if self._silence_seconds is not None and now - self._told_alive >= self._silence_seconds / 4:
            self._told_alive = now
            notify_alive()

    def _kill_silent(self) -> None:
        """Kill children whose event loop is stuck, as the service manager would: they are started again."""
        if self._store is not None:
            self._store.kill_if_silent()
        for pid, proof in self._ready.items():
            if proof.is_overdue:
                log.error("a worker is stuck: it is killed", pid=pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _start_store(self) -> bool:
        """Start the store and wait until it is open; True if it is."""
        assert self._store is not None
        return self._store.start(self._line.let_go, self._tell_alive, self._silence_seconds)

    def _start(self) -> bool:
        """Start a worker and wait until it is ready; True if it is."""
        started: list[int] = []
        proof = ProofOfLife(self._silence_seconds)

        def known(pid: int) -> None:
            started.append(pid)
            self._pids[pid] = time.monotonic()

        is_ready = start_child(lambda ready: self._be_worker(ready, proof), known, self._tell_alive)
        if is_ready:
            self._is_first = False
            proof.give()  # while it started, it may have been silent
            self._ready.update(dict.fromkeys(started, proof))
        return is_ready

    def _be_worker(self, ready: int, proof: ProofOfLife) -> int:
        self._line.let_go()
        signal.signal(signal.SIGHUP, signal.SIG_IGN if self._has_certificates() else signal.SIG_DFL)
        tree = self._loaded.with_ports(self._ports)
        server = tree.server.model_copy(update={"ready_file": None, "free_ports": False})
        mine = LoadedSettings(tree.model_copy(update={"server": server}), self._loaded.origins)

        def say() -> bool:
            os.write(ready, b"1")
            return self._is_first

        def main(loaded: LoadedSettings) -> Awaitable[int]:
            self._line.stop_at_its_end()
            return self._main(loaded, say)

        return run_process(mine, main, proof)

    def _restart_store(self) -> None:
        """Restart a store that was killed. One that gave up ends all: its data cannot be trusted to it."""
        if self._store is None or self._is_stopping or (code := self._store.ended()) is None:
            return
        if code < 0:
            log.error("the store's process was killed: it is started again", signal=signal.Signals(-code).name)
            self._pause(self._store.started)
            if self._is_stopping or self._start_store() or self._is_stopping:
                return
        self._code = 1
        self._stop()
        log.critical("stopping: the store's process has ended", code=code)

    def _restart_ended(self) -> None:
        for pid in list(self._pids):
            found, status = os.waitpid(pid, os.WNOHANG)
            if not found:
                continue
            started = self._pids.pop(pid)
            self._ready.pop(pid, None)
            if not self._is_stopping:  # else it was told to end
                log.error("a worker has ended", pid=pid, code=os.waitstatus_to_exitcode(status))
                self._pause(started)
                if not self._is_stopping:
                    self._start()

    def _pause(self, started: float) -> None:
        again = started + RESTART_SECONDS
        while time.monotonic() < again and not self._is_stopping:
            self._tell_alive()
            time.sleep(0.05)

    def _drain_wakes(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def _stop(self, number: int = signal.SIGTERM, frame: object = None) -> None:
        self._is_stopping = True
        if self._store is not None:
            self._store.stop_starting()
        for pid in self._pids.keys() - self._told:  # a second signal would cut its draining short
            self._told.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def _has_certificates(self) -> bool:
        """True if workers take SIGHUP as a reload of certificates, not as their end."""
        settings = self._loaded.settings
        return (
            settings.http.tls_certificate is not None
            or not {"mqtts", "wss", "amqps"}.isdisjoint(self._ports)
            or ("grpc" in self._ports and settings.grpc.tls != "off" and settings.grpc.tls_certificate is not None)
        )

    def _reload(self, number: int, frame: object) -> None:
        """Tell ready workers to reload their certificates; one that is starting reads them anyway."""
        for pid in self._ready:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)

    def _reap_all(self) -> None:
        """Wait for all, and kill them when they take too long."""
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
