"""Bridges: all bridges of the settings, as tasks of this gateway."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Final

import structlog

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.bridge.bridge import Bridge, BridgeParts
from entrepot.gateway.bridge.status import BridgeStatus
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.settings import BridgeSettings

AFTER_FAULT_SECONDS: Final = 5.0
"""Pause of a bridge after a fault of our own, in seconds."""

STOP_SECONDS: Final = 8.0
"""Longest time to stop: to release held messages and the leases."""

log = structlog.get_logger(__name__)


class Bridges:
    """The bridges of this gateway and their status."""

    def __init__(
        self,
        settings: BridgeSettings,
        store: Store,
        sender: Sender,
        retained: RetainedMessages,
        routes: Routes,
        any_level_topics: set[str],
        clock: Clock,
        random: Random,
        identity: Identity,
    ) -> None:
        parts = BridgeParts(store, sender, retained, routes, any_level_topics, clock, random, identity)
        self._bridges = [Bridge(remote, parts) for remote in settings.remotes]
        self._tasks: list[asyncio.Task[None]] = []

    def status(self) -> list[BridgeStatus]:
        """The status of each, in the order of the settings."""
        return [bridge.status() for bridge in self._bridges]

    def start(self) -> None:
        """Run them on the running loop."""
        self._tasks = [background().keep("bridges", partial(self._run, bridge)) for bridge in self._bridges]

    async def stop(self) -> None:
        """Close the connections and release the leases."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_SECONDS)
        for bridge in self._bridges:
            bridge.close()

    async def _run(self, bridge: Bridge) -> None:
        while True:
            try:
                await bridge.run()
            except Exception as fault:  # noqa: BLE001 - a fault of our own ends neither the gateway nor the bridge
                background().failed("bridges", fault)
            await asyncio.sleep(AFTER_FAULT_SECONDS)
