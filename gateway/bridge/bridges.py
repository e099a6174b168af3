"""Bridges: all bridges of one kind, as tasks of this gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from entrepot.domain.background import background
from entrepot.gateway.bridge.leased import LeasedBridge

AFTER_FAULT_SECONDS: Final = 5.0
"""Pause of a bridge after a fault of our own, in seconds."""

STOP_SECONDS: Final = 8.0
"""Longest time to stop: to release held messages and the leases."""


class Bridges:
    """The bridges of this gateway, in the order of the settings."""

    def __init__(self, bridges: Sequence[LeasedBridge]) -> None:
        self._bridges = bridges
        self._tasks: list[asyncio.Task[None]] = []

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

    async def _run(self, bridge: LeasedBridge) -> None:
        while True:
            try:
                await bridge.run()
            except Exception as fault:  # noqa: BLE001 - a fault of our own ends neither the gateway nor the bridge
                background().failed("bridges", fault)
            await asyncio.sleep(AFTER_FAULT_SECONDS)
