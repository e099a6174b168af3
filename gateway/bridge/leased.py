"""LeasedBridge: the life of a bridge, whatever is at its other end.

lease -> connect -> carry in and out; after the end of a connection wait, longer each time, and connect again; after the
end of the lease stop at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, TypeVar

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import KeyValues
from entrepot.gateway.bridge.errors import LeaseLostError, RemoteError
from entrepot.gateway.bridge.lease import BridgeLease, LeaseRecord
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.member.identity import Identity

FIRST_BACK_OFF_SECONDS: Final = 0.5
STEADY_SECONDS: Final = 10.0
"""Duration of a good connection, in seconds: after it the waits begin anew."""

_Key = TypeVar("_Key", bound=tuple[Any, ...])
log = structlog.get_logger(__name__)


class LeasedBridge:
    """A bridge, which runs while this gateway has the lease `lease`.  `place`: its other end, for the log."""

    def __init__(
        self,
        name: str,
        lease: str,
        place: str,
        max_backoff_seconds: float,
        key_values: KeyValues,
        clock: Clock,
        random: Random,
        identity: Identity,
    ) -> None:
        self.name, self._place, self._max_backoff_seconds = name, place, max_backoff_seconds
        self._clock, self._random = clock, random
        self._state = BridgeState.STANDBY
        self._begun_ms = self._since_ms = clock.now_ms()
        self._last_error = ""
        self._lease = BridgeLease(key_values, clock, lease, identity, self._report)
        self.close = self._lease.close

    # -- what each kind does -----------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Make what it needs here, once it has the lease.  Raises the store's refusals."""

    async def _connected(self) -> None:
        """Run one connection: `_tell_connected` when it carries.  Raises its end as `RemoteError`."""
        raise NotImplementedError

    def _refusal(self) -> str:
        """Return why nothing passes now; empty while messages do."""
        return ""

    def _tell_connected(self) -> None:
        self._become(BridgeState.CONNECTED)

    # -- its state ---------------------------------------------------------------------------------------------------

    def _told(self) -> tuple[BridgeState, int, str, LeaseRecord | None]:
        """Return the state here, or the last one told by the gateway that runs the bridge: the state, since when, the
        last error, and the record of the lease."""
        record = self._lease.record
        state, since_ms, last_error = self._report()
        is_elsewhere = record is not None and not self._lease.is_held
        if is_elsewhere and record is not None and record.state and record.until_ms > self._clock.now_ms():
            state, since_ms, last_error = record.state, record.since_ms, record.last_error
        return BridgeState(state), since_ms, last_error, record

    def _report(self) -> tuple[str, int, str]:
        return self._state.value, self._since_ms, self._refusal() or self._last_error

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                try:
                    await self._lease.acquire()
                    log.info("this gateway runs the bridge", bridge=self.name)
                    await first_of(self._lease.keep(), self._carry_on())
                except LeaseLostError as lost:
                    self._become(BridgeState.STANDBY, str(lost))
                except EntrepotError as error:  # no answer of the store, or it has no key-values
                    self._become(BridgeState.BACK_OFF, error.message)
                    await asyncio.sleep(self._max_backoff_seconds * self._random.uniform(0.1, 0.5))
        finally:
            await asyncio.shield(self._lease.release())
            self._become(BridgeState.STANDBY)

    async def _carry_on(self) -> None:
        await self._prepare()
        back_off = FIRST_BACK_OFF_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            self._become(BridgeState.CONNECTING)
            begun = loop.time()
            try:
                await self._connected()
            except RemoteError as error:
                if self._state is BridgeState.CONNECTED and loop.time() - begun > STEADY_SECONDS:
                    back_off = FIRST_BACK_OFF_SECONDS
                self._become(BridgeState.BACK_OFF, str(error))
            await asyncio.sleep(min(back_off, self._max_backoff_seconds) * self._random.uniform(0.5, 1.0))
            back_off = min(back_off * 2, self._max_backoff_seconds)

    def _become(self, state: BridgeState, error: str = "") -> None:
        if error:
            self._last_error = error
        if state is not self._state:
            self._since_ms = self._clock.now_ms()
        is_news = state is not self._state and state is not BridgeState.CONNECTING
        self._state = state
        if is_news:
            tell = log.info if state is BridgeState.CONNECTED else log.warning
            tell("bridge", bridge=self.name, state=state.value, remote=self._place, error=error or None)


async def first_of(*work: Coroutine[Any, Any, None]) -> None:
    """Run side by side until one ends, and raise its end; the others are cancelled and awaited."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, RemoteError, LeaseLostError, EntrepotError):
                await task


async def carry_topics(
    watch: Callable[[Callable[[str], None]], Callable[[], None]],
    wanted: Callable[[], set[_Key]],
    carry: Callable[[_Key], Coroutine[Any, Any, None]],
) -> None:
    """Run a task for each wanted key, such as a rule and a topic, as topics come and go, until cancelled.  Raises the
    `RemoteError` or `LeaseLostError` with which a task ends.  `watch`: of `domain.ports.Topology.watch_topics`."""
    changed = asyncio.Event()
    tasks: dict[_Key, asyncio.Task[None]] = {}
    stop_watching = watch(lambda name: changed.set())
    try:
        async with asyncio.TaskGroup() as group:
            while True:
                changed.clear()
                keys = wanted()
                for key in [key for key, task in tasks.items() if task.done() or key not in keys]:
                    tasks.pop(key).cancel()
                for key in sorted(keys - tasks.keys()):
                    tasks[key] = group.create_task(carry(key))
                await changed.wait()
    except ExceptionGroup as failures:
        ended, other = failures.split((RemoteError, LeaseLostError))
        if ended is None or other is not None:
            raise
        first = ended.exceptions[0]
        raise type(first)(str(first)) from None
    finally:
        stop_watching()
