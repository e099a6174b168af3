"""Bridge: one remote, from the lease to the connection and back.

lease -> connect -> carry in and out; after the end of a connection wait, longer each time, and connect again; after the
end of the lease stop at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import structlog

from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Store
from entrepot.gateway.bridge.connection import RemoteConnection
from entrepot.gateway.bridge.errors import LeaseLostError, RemoteError
from entrepot.gateway.bridge.inbound import Inbound
from entrepot.gateway.bridge.lease import BridgeLease
from entrepot.gateway.bridge.origin import store_origin
from entrepot.gateway.bridge.outbound import Outbound, ensure_groups
from entrepot.gateway.bridge.status import BridgeCounters, BridgeState, BridgeStatus
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.settings import BridgeRemote

FIRST_BACK_OFF_SECONDS: Final = 0.5
STEADY_SECONDS: Final = 10.0
"""Duration of a good connection, in seconds: after it the waits begin anew."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BridgeParts:
    """Parts shared by the bridges of a gateway; `identity` owns their leases."""

    store: Store
    sender: Sender
    retained: RetainedMessages
    routes: Routes
    any_level_topics: set[str]
    clock: Clock
    random: Random
    identity: Identity


class Bridge:
    """One remote's bridge, which runs while this gateway has the lease."""

    def __init__(self, remote: BridgeRemote, parts: BridgeParts) -> None:
        self._remote = remote
        self._parts = parts
        self._state = BridgeState.STANDBY
        self._begun_ms = self._since_ms = parts.clock.now_ms()
        self._last_error = ""
        self._lease = BridgeLease(parts.store.key_values, parts.clock, remote.name, parts.identity, self._report)
        self.close = self._lease.close
        self._inbound: Inbound | None = None
        self.counters = BridgeCounters()

    def status(self) -> BridgeStatus:
        """The state here, or the last one told by the gateway that runs the bridge."""
        record = self._lease.record
        owner = "" if record is None else record.owner
        is_here = self._lease.is_held
        state, since_ms, last_error = self._report()
        if record is not None and not is_here and record.state and record.until_ms > self._parts.clock.now_ms():
            state, since_ms, last_error = record.state, record.since_ms, record.last_error
        remote = self._remote
        return BridgeStatus(
            remote.name,
            remote.url,
            remote.version,
            BridgeState(state),
            since_ms,
            owner,
            is_here,
            last_error,
            self.counters,
        )

    def _report(self) -> tuple[str, int, str]:
        refusal = "" if self._inbound is None else self._inbound.last_refusal
        return self._state.value, self._since_ms, refusal or self._last_error

    async def run(self) -> None:
        """Run until cancelled."""
        try:
            while True:
                try:
                    await self._lease.acquire()
                    log.info("this gateway runs the bridge", bridge=self._remote.name)
                    await _first_of(self._lease.keep(), self._carry_on())
                except LeaseLostError as lost:
                    self._become(BridgeState.STANDBY, str(lost))
                except EntrepotError as error:  # no answer of the store, or it has no key-values
                    self._become(BridgeState.BACK_OFF, error.message)
                    await asyncio.sleep(self._remote.max_backoff_seconds * self._parts.random.uniform(0.1, 0.5))
        finally:
            await asyncio.shield(self._lease.release())
            self._become(BridgeState.STANDBY)

    async def _carry_on(self) -> None:
        parts, remote = self._parts, self._remote
        origin = await store_origin(parts.store.key_values, f"{parts.random.getrandbits(64):016x}")
        await ensure_groups(parts.store, remote, self._begun_ms)
        back_off = FIRST_BACK_OFF_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            self._become(BridgeState.CONNECTING)
            begun = loop.time()
            try:
                await self._connected(origin)
            except RemoteError as error:
                if self._state is BridgeState.CONNECTED and loop.time() - begun > STEADY_SECONDS:
                    back_off = FIRST_BACK_OFF_SECONDS
                self._become(BridgeState.BACK_OFF, str(error))
            await asyncio.sleep(min(back_off, remote.max_backoff_seconds) * parts.random.uniform(0.5, 1.0))
            back_off = min(back_off * 2, remote.max_backoff_seconds)

    async def _connected(self, origin: str) -> None:
        """Run one connection; raise its end as `RemoteError`."""
        parts, remote = self._parts, self._remote
        inbound = Inbound(remote, parts.sender, parts.routes, parts.clock, self.counters, parts.retained.publish)
        connection = RemoteConnection(remote, inbound.take)
        inbound.connection = connection
        incidents = parts.sender.incidents
        outbound = Outbound(remote, parts.store, parts.clock, self.counters, parts.any_level_topics, origin, incidents)
        try:
            await connection.open()
            self._inbound = inbound
            # Messages of the kept session come before the SUBACK: they are stored meanwhile, else the SUBACK would wait
            # for room.
            carrying_out = self._subscribe_and_send(connection, inbound, outbound)
            await _first_of(_ended(connection), inbound.run(connection), carrying_out)
        finally:
            self._inbound = None
            connection.close()

    async def _subscribe_and_send(self, connection: RemoteConnection, inbound: Inbound, outbound: Outbound) -> None:
        if inbound.filters:
            await connection.subscribe(inbound.filters)
        self.counters.connects += 1
        self._become(BridgeState.CONNECTED)
        await outbound.run(connection)
        await asyncio.get_running_loop().create_future()  # nothing to send, but the connection goes on

    def _become(self, state: BridgeState, error: str = "") -> None:
        if error:
            self._last_error = error
        if state is not self._state:
            self._since_ms = self._parts.clock.now_ms()
        is_news = state is not self._state and state is not BridgeState.CONNECTING
        self._state = state
        if is_news:
            tell = log.info if state is BridgeState.CONNECTED else log.warning
            host, port = self._remote.address
            tell("bridge", bridge=self._remote.name, state=state.value, remote=f"{host}:{port}", error=error or None)


async def _ended(connection: RemoteConnection) -> None:
    raise RemoteError(await connection.until_ended())


async def _first_of(*work: Coroutine[Any, Any, None]) -> None:
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
