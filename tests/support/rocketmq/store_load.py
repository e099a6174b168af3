"""Load on a store whose servers fail: a publisher, tails and a consumer that keep what was promised and what came."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import UNANSWERED, Code, EntrepotError
from entrepot.domain.message import StoredMessage
from entrepot.domain.ports import PopRequest, Store
from tests.support.stores.steps import handles, message, settled
from tests.support.waiting import until

PAUSE_SECONDS = 0.05
"""After a refusal, as clients do."""
POP_PAUSE_SECONDS = 0.25
POP_MS, LEASE_MS = 2_000, 20_000
GOES_ON_SECONDS = 120.0
"""Longest time that a cluster may need to have a master again: three JVMs start on a busy machine meanwhile."""


class Publisher:
    """Publishes on several lines, each one message after the other, to the queues in turn.

    `codes`: what was refused or left open, and how often.  `unknown`: bodies whose outcome is open."""

    def __init__(self, store: Store, topic: str, name: str, queues: Sequence[int] = (0, 1), lines: int = 2) -> None:
        self._store, self._topic, self._name = store, topic, name
        self.sent: list[str] = []
        self.confirmed: list[str] = []
        self.unknown: set[str] = set()
        self.codes: Counter[Code] = Counter()
        self._is_over = False
        self._queues = queues
        self._tasks = [asyncio.create_task(self._run(line)) for line in range(lines)]

    async def _run(self, line: int) -> None:
        number = 0
        while not self._is_over:
            body = f"{self._name}{line}-{number}"
            queue_id = self._queues[(line + number) % len(self._queues)]
            number += 1
            self.sent.append(body)
            confirmation = self._store.messages.append([message(self._topic, body, queue_id)])
            failure = await settled(confirmation)
            refusal = failure or next(iter(filter(None, confirmation.refusals or ())), None)
            if refusal is None:
                self.confirmed.append(body)
                continue
            self.codes[refusal.code] += 1
            if refusal.code in UNANSWERED:
                self.unknown.add(body)
            await asyncio.sleep(PAUSE_SECONDS)

    async def goes_on(self, count: int = 50) -> None:
        """Return when more has been confirmed."""
        before = len(self.confirmed)
        await until(lambda: len(self.confirmed) > before + count, lambda: f"{self.codes}", GOES_ON_SECONDS)

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    def findings(self, found: Sequence[str]) -> tuple[list[str], list[str]]:
        """What is lost of the confirmed, and what nobody sent, or what was refused for certain."""
        possible = {*self.confirmed, *self.unknown}
        return sorted(set(self.confirmed) - set(found)), sorted(set(found) - possible)

    def tell(self, what: str, found: Sequence[str], **others: object) -> str:
        """Print the figures, and return them."""
        lost, phantom = self.findings(found)
        refused = {code.name: count for code, count in sorted(self.codes.items())}
        text = (
            f"{what}: sent {len(self.sent)}, confirmed {len(self.confirmed)}, unknown {len(self.unknown)}, "
            f"lost {len(lost)}, phantom {len(phantom)}, refused or open {refused}, {others}"
        )
        print(text)
        return text


class Tails:
    """Tails of queues from their beginnings, and what they handed over, by queue."""

    def __init__(self, store: Store, topic: str, queues: Sequence[int]) -> None:
        self.found: dict[int, list[StoredMessage]] = {queue_id: [] for queue_id in queues}
        self._tails = [store.messages.tail(topic, queue_id, 0, self.found[queue_id].extend) for queue_id in queues]

    def bodies(self, queue_id: int) -> list[str]:
        return [each.body.decode() for each in self.found[queue_id]]

    def all(self) -> list[str]:
        return [body for queue_id in self.found for body in self.bodies(queue_id)]

    def repeated(self) -> list[str]:
        """What came twice."""
        return [body for body, count in Counter(self.all()).items() if count > 1]

    def close(self) -> None:
        for tail in self._tails:
            tail.close()


class Popper:
    """A consumer that pops and acknowledges, one pop after the other."""

    def __init__(self, store: Store, topic: str, group: str) -> None:
        self._store, self._topic, self._group = store, topic, group
        self.taken: Counter[str] = Counter()
        self.codes: Counter[Code] = Counter()
        self._is_over = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while not self._is_over:
            try:
                found = await self._store.consumption.pop(PopRequest(self._topic, self._group, 32, POP_MS, LEASE_MS))
                await self._settle(list(found))
            except EntrepotError as refusal:
                self.codes[refusal.code] += 1
                await asyncio.sleep(POP_PAUSE_SECONDS)

    async def _settle(self, found: list[Delivery]) -> None:
        self.taken.update(each.message.body.decode() for each in found)
        if found:
            outcomes = await self._store.consumption.acknowledge(self._topic, self._group, handles(found))
            self.codes.update(outcome.code for outcome in outcomes if outcome is not None)

    async def stop(self) -> None:
        self._is_over = True
        await self._task


async def everything(store: Store, topic: str) -> dict[int, list[StoredMessage]]:
    """All messages of a topic, by queue."""
    found: dict[int, list[StoredMessage]] = {}
    for bounds in await store.messages.bounds(topic):
        of_queue = found.setdefault(bounds.queue_id, [])
        at = bounds.min_offset
        while at < bounds.max_offset:
            pulled = await store.messages.pull(topic, bounds.queue_id, at, 500)
            of_queue += pulled.messages
            at = pulled.next_offset
    return found


def bodies_of(found: dict[int, list[StoredMessage]]) -> list[str]:
    return [each.body.decode() for of_queue in found.values() for each in of_queue]
