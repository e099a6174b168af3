"""Popping over several brokers.

If one broker has all of a topic, it does the waiting.  If several have it, they are asked at once, each for a part, and
those that had all of their part once more.  If nothing is there, brokers tell when to ask again (`watch_available`):
one stream for a topic, group and broker, however many pops wait here.  One waiting pop is woken, which wakes the next
if it got all that it asked for.

A cancelled pop gives back the messages that brokers have claimed for it, also in answers still under way.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from entrepot.broker.remoting.link import ClientStream
from entrepot.domain.delivery import Deliveries, Part
from entrepot.domain.errors import AWAY, Code, EntrepotError
from entrepot.domain.ports import PopRequest
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

LINGER_SECONDS: Final = 10.0
"""Life of streams after the last waiting pop: consumers come back."""
AT_ONCE_SECONDS: Final = 2.0
"""Longest wait for a pop without waiting: a slower broker is unwell, and others are asked."""
MAX_WAITING: Final = 100_000


class Popping:
    """Implements `domain.ports.Consumption.pop`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._released: asyncio.Future[None] = self._loop.create_future()
        self._grown: asyncio.Future[None] = self._loop.create_future()
        """Done, and made anew, when a broker comes."""
        cluster.ready_watchers.append(self._ready_changed)

    def release(self) -> None:
        """Answer all waiting pops, and keep none waiting from here on."""
        if not self._released.done():
            self._released.set_result(None)
        for waiting in self._waiting.values():
            waiting.release()

    async def pop(self, request: PopRequest) -> Deliveries:
        deadline = self._loop.time() + request.wait_ms / 1000
        brokers = self._cluster.of_topic(request.topic)
        while len(brokers) == 1 and not self._cluster.absent_of(request.topic):
            answer = await self._pop_waiting(brokers[0], request)
            if answer is not None:
                return answer
            request = replace(request, wait_ms=max(int((deadline - self._loop.time()) * 1000), 0))
            brokers = self._cluster.of_topic(request.topic)
        found = await self._round(request)
        if found or request.wait_ms <= 0 or self._released.done():
            return found
        while not self._released.done():
            waiting = self._waiting_for(request.topic, request.group)
            if not await waiting.wait(deadline):
                return Deliveries()
            is_enough = True
            try:
                found = await self._round(request)
                is_enough = len(found) >= request.max_messages
            finally:
                if is_enough:  # or it was cut short, and the messages are for the next
                    waiting.wake()
            if found:
                return found
        return Deliveries()

    # -- one broker ----------------------------------------------------------------------------------------------

    async def _pop_waiting(self, client: BrokerClient, request: PopRequest) -> Deliveries | None:
        """Let the broker wait; give up at a release, or (None) when another broker comes that may have messages."""
        if request.wait_ms <= 0:
            return await self._pop_at(client, request)
        if self._released.done():
            return await self._pop_at(client, replace(request, wait_ms=0))
        popping = self._loop.create_task(self._pop_at(client, request))
        try:
            await asyncio.wait((popping, self._released, self._grown), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._end(client, request, popping)
            raise
        if popping.done():
            return popping.result()
        popping.cancel()
        await asyncio.gather(popping, return_exceptions=True)
        return Deliveries() if self._released.done() else None

    async def _pop_at(self, client: BrokerClient, request: PopRequest) -> Deliveries:
        seconds = request.wait_ms / 1000 + client.request_seconds
        if not request.wait_ms:
            seconds = min(seconds, AT_ONCE_SECONDS)
        # An attempt with a name finds its messages again by it.
        on_late = None if request.attempt_id else partial(self._give_back, client, request)
        return await client.ask(rows.POP.ask(request), seconds=seconds, on_late=on_late)

    def _give_back(self, client: BrokerClient, request: PopRequest, deliveries: Deliveries) -> None:
        """Give back deliveries that nobody waits for any more: others can have them at once."""
        if deliveries and not request.attempt_id:
            asked = rows.CHANGE_INVISIBLE_DURATION.ask(
                request.topic, request.group, deliveries, 0, release=True, suspend=True
            )
            client.send(asked.row, asked.payload(), lambda refusal, told: None)  # or their invisible time ends

    def _end(self, client: BrokerClient, request: PopRequest, popping: asyncio.Task[Deliveries]) -> None:
        """Cancel the pop of one broker, whose answer may have come just now."""
        if not popping.cancel() and not popping.cancelled() and popping.exception() is None:
            self._give_back(client, request, popping.result())

    # -- several brokers -----------------------------------------------------------------------------------------

    async def _round(self, request: PopRequest) -> Deliveries:
        """Ask for the present messages; brokers to avoid only if the others have none.  An attempt with a name is first
        looked up everywhere, to find its messages again.  Raises only if no broker answers: one that refuses may not
        know the topic yet, or have reached the group's limit."""
        brokers = self._cluster.of_topic(request.topic)
        self._turn += 1
        first = self._turn % len(brokers)
        turn = [*brokers[first:], *brokers[:first]]
        if request.attempt_id:
            again = await self._ask_well(turn, replace(request, wait_ms=0, is_again=True))
            if again:
                return again
        return await self._ask_well(turn, replace(request, wait_ms=0))

    async def _ask_well(self, turn: Sequence[BrokerClient], request: PopRequest) -> Deliveries:
        avoided = [client for client in turn if self._cluster.is_avoided(client)]
        asking = _Asking(request, [client for client in turn if client not in avoided])
        await self._ask(asking)
        if not asking.found and avoided:
            asking.turn = avoided
            await self._ask(asking)
        return asking.result()

    async def _ask(self, asking: _Asking) -> None:
        """Ask brokers at once, each for a part, until there is enough or none has more."""
        while parts := asking.parts():
            tasks = {
                client: self._loop.create_task(self._pop_at(client, replace(asking.request, max_messages=count)))
                for client, count in parts.items()
            }
            try:
                await asyncio.wait(tasks.values())
            except asyncio.CancelledError:
                for client, task in tasks.items():
                    self._end(client, asking.request, task)
                for client, parts_of in asking.found.items():
                    self._give_back(client, asking.request, Deliveries(parts_of))
                raise
            for client, task in tasks.items():
                error = task.exception()
                if error is None:
                    asking.answered(client, task.result(), parts[client])
                elif isinstance(error, EntrepotError):
                    if error.code in AWAY:
                        self._cluster.failed(client)
                    asking.refused(error)
                else:
                    raise error

    def _waiting_for(self, topic: str, group: str) -> _Waiting:
        key = (topic, group)
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting(self, key)
        return waiting

    def forget(self, key: tuple[str, str]) -> None:
        self._waiting.pop(key, None)

    def brokers_of(self, topic: str) -> list[BrokerClient]:
        """Return the brokers that can tell now."""
        try:
            return self._cluster.of_topic(topic)
        except EntrepotError:
            return []

    def _ready_changed(self, client: BrokerClient, is_ready: bool) -> None:
        if is_ready:
            self._grown.set_result(None)
            self._grown = self._loop.create_future()
        for waiting in tuple(self._waiting.values()):
            if is_ready:
                waiting.open_streams()
            else:
                waiting.lost(client)


class _Asking:
    """The brokers' answers to one pop.  `turn`: those that may have (more) messages, in the order of asking."""

    def __init__(self, request: PopRequest, turn: list[BrokerClient]) -> None:
        self.request, self.turn = request, turn
        self.found: dict[BrokerClient, list[Part]] = {}
        self._missing = request.max_messages
        self._has_answer = False
        self._problem: EntrepotError | None = None

    def parts(self) -> dict[BrokerClient, int]:
        """Return the number of messages to ask of each now: together no more than are missing."""
        asked, self.turn = self.turn[: self._missing], self.turn[self._missing :]
        return {client: (self._missing + place) // len(asked) for place, client in enumerate(reversed(asked))}

    def answered(self, client: BrokerClient, deliveries: Deliveries, count: int) -> None:
        self._has_answer = True
        self._missing -= len(deliveries)
        if deliveries:
            self.found.setdefault(client, []).extend(deliveries.parts)
        if len(deliveries) >= count:
            self.turn.append(client)

    def refused(self, error: EntrepotError) -> None:
        if self._problem is None or error.code not in AWAY:
            self._problem = error

    def result(self) -> Deliveries:
        """Return all that was found.  Raises the refusal if none of them answered."""
        if self._problem is not None and not self._has_answer:
            raise self._problem
        return Deliveries([part for parts in self.found.values() for part in parts])


class _Waiting:
    """The pops of one topic and group that wait here."""

    def __init__(self, popping: Popping, key: tuple[str, str]) -> None:
        self._popping, self._key = popping, key
        self._loop = asyncio.get_running_loop()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._streams: dict[BrokerClient, ClientStream] = {}
        self._is_hot = False
        self._closing: asyncio.TimerHandle | None = None

    async def wait(self, deadline: float) -> bool:
        """Wait until a pop may be worthwhile; False once the time is over."""
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None
        if len(self._waiters) >= MAX_WAITING:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many long polls are waiting")
        self.open_streams()
        if self._is_hot:
            self._is_hot = False
            return True
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(future)
        try:
            await asyncio.wait((future,), timeout=max(deadline - self._loop.time(), 0))
            return future.done()
        except asyncio.CancelledError:
            if future.done():
                self.wake()  # its turn must not be lost with it
            raise
        finally:
            if future in self._waiters:
                self._waiters.remove(future)
            if not self._waiters:
                self._closing = self._loop.call_later(LINGER_SECONDS, self._close)

    def wake(self) -> None:
        """Let the next one look."""
        while self._waiters:
            future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)
                return
        self._is_hot = True

    def release(self) -> None:
        for future in self._waiters:
            if not future.done():
                future.set_result(None)

    def open_streams(self) -> None:
        for client in self._popping.brokers_of(self._key[0]):
            if client not in self._streams:
                payload = wire.WATCH_AVAILABLE.encode_arguments(*self._key)
                try:
                    self._streams[client] = client.link.open_stream(
                        wire.WATCH_AVAILABLE, payload, self._told, partial(self._ended, client)
                    )
                except EntrepotError:
                    continue  # it has just gone; it is asked when it is back

    def _told(self, payload: bytes) -> None:
        self.wake()

    def _ended(self, client: BrokerClient, error: EntrepotError) -> None:
        self._streams.pop(client, None)

    def lost(self, client: BrokerClient) -> None:
        self._streams.pop(client, None)

    def _close(self) -> None:
        if not self._waiters:
            for stream in self._streams.values():
                stream.close()
            self._streams.clear()
            self._popping.forget(self._key)
