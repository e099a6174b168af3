"""Currency: how long values may have changed unseen.

A linearizable read tells the newest revision there is; each watch then says that it has told all up to it.  A member
that hangs, or is cut off, answers neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Set as AbstractSet
from typing import Final

from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import RANGE
from entrepot.store_client.etcd.members import Members
from entrepot.store_client.etcd.requests import Keys
from entrepot.store_client.etcd.watching import Watch

GRACE: Final = 2.5
"""Intervals of probes up to which all counts as current."""


class Currency:
    """The age of what is read and watched, as probes find it."""

    def __init__(self, members: Members, keys: Keys, watches: AbstractSet[Watch], interval: float) -> None:
        self._members, self._keys, self._watches, self._interval = members, keys, watches, interval
        self._loop = asyncio.get_running_loop()
        self._read_at = self._loop.time()
        self._is_known = False
        self._work = background().keep("probes of etcd", self._run)

    def age_seconds(self) -> float:
        oldest = min((self._read_at, *(watch.current_at for watch in self._watches)))
        age = self._loop.time() - oldest
        return 0.0 if self._is_known and age <= GRACE * self._interval else age

    def close(self) -> None:
        self._work.cancel()

    async def _run(self) -> None:
        while True:
            await self._probe()
            await asyncio.sleep(self._interval)

    async def _probe(self) -> None:
        asked_at = self._loop.time()
        question = pb.RangeRequest(key=self._keys.stored(""), count_only=True)
        try:
            revision = (await self._members.ask(RANGE, question)).header.revision
        except EntrepotError:
            return  # the next one may do better: until then the age grows
        self._read_at, self._is_known = max(self._read_at, asked_at), True
        try:
            async with asyncio.timeout(self._interval):
                await asyncio.gather(*(watch.probe(asked_at, revision) for watch in tuple(self._watches)))
        except TimeoutError:
            pass  # a stream that takes nothing: the cancelled write has ended it
