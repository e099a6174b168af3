"""A whole gateway over a store in memory, in a thread of the test's process, whose time goes on when it is told to.

For what lasts seconds by the protocol: expiry, delays of wills and messages.  Keep alive is counted by the event loop
and goes on as everywhere.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from types import TracebackType
from typing import Any, NoReturn, Self

import structlog
from structlog.typing import EventDict

from entrepot.domain.clock import Clock
from entrepot.gateway.app import Gateway
from entrepot.gateway.settings import Settings, load_settings
from entrepot.gateway.transport.binding import bind
from tests.support.clock import ManualClock
from tests.support.stores.model_store.by_settings import model_store_of
from tests.support.waiting import PATIENCE_SECONDS

DOORS = ("mqtt", "ws", "amqp", "http")


def _settings_of(given: dict[str, Any]) -> Settings:
    if any("." in name for name in given):
        return load_settings(flags={"grpc.enabled": "false", **given}).settings
    return Settings.model_validate({"grpc": {"enabled": False}, **given})


class LoopOfAThread(asyncio.SelectorEventLoop):
    """Has no signals: they are the main thread's."""

    def add_signal_handler(self, *_: object) -> None: ...

    def remove_signal_handler(self, *_: object) -> bool:
        return False


class GatewayThread:
    """`clock`: the time of the gateway and of its store.  It stands still unless it is advanced, or another is given.

    `settings`: by their names with dots, or nested.  `fixed`: ports of doors that are not just free ones.
    """

    def __init__(
        self, settings: dict[str, Any] | None = None, *, clock: Clock | None = None, fixed: dict[str, int] | None = None
    ) -> None:
        self.clock = clock or ManualClock()
        self._fixed = fixed or {}
        self.ports: dict[str, str] = {}
        self._log: list[str] = []
        self._settings = _settings_of(settings or {})
        self._is_ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        structlog.configure(processors=[self._logged])  # until the end of the test, as tests/conftest.py wants it
        self._thread.start()
        assert self._is_ready.wait(PATIENCE_SECONDS), "the gateway does not start"
        assert self._failure is None, self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._end is not None:
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the gateway does not end"
        if kind is None:
            assert self._failure is None, self._failure

    def stop(self) -> int:
        """Nothing: it ends where its context does.  The exit code, as of a process."""
        return 0

    def log_text(self) -> str:
        """The log, a line for each event; of a gateway that one test has for itself."""
        return "\n".join(self._log)

    def _logged(self, _: object, level: str, event: EventDict) -> NoReturn:
        words = [
            f"{key}={value!r}" if " " in str(value) else f"{key}={value}"
            for key, value in event.items()
            if key != "event"
        ]
        self._log.append(f"{level} {event['event']} {' '.join(words)}")
        if event.get("exc_info"):
            self._log.append(traceback.format_exc())
        raise structlog.DropEvent

    def port(self, door: str) -> int:
        """The port of a door."""
        return int(self.ports[door].rpartition(":")[2])

    def address(self, door: str) -> str:
        """Where a door is."""
        return self.ports[door]

    def pass_time(self, seconds: float) -> None:
        """Let so much time be over at once."""
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(int(seconds * 1000))

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=LoopOfAThread) as runner:
                runner.run(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._is_ready.set()

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        doors = (*DOORS, "mqtts", "wss") if self._settings.mqtt.tls_certificate else DOORS
        sockets = {door: bind("127.0.0.1", self._fixed.get(door, 0)) for door in doors}
        store = model_store_of(self._settings, self.clock)
        gateway = Gateway(self._settings, store, self.clock, sockets)
        gateway.security.setup_token.path = None  # there is no data directory
        await gateway.start()
        self.ports = {door: f"127.0.0.1:{listener.getsockname()[1]}" for door, listener in sockets.items()}
        self._is_ready.set()
        try:
            await self._end.wait()
        finally:
            await gateway.drain()
            await store.close()
