"""A keeper of key-values whose every step is somebody's choice: what is served, what arrives, what is lost."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from entrepot.domain.broker_of_queue import first_place
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange, KeyValueEvent, OnEvents, conflict

AWAY = EntrepotError(Code.UNAVAILABLE, "the one that keeps key-values is away")
UNKNOWN = EntrepotError(Code.OUTCOME_UNKNOWN, "the connection was lost")
MAX_PAGE = 2


class Watching:
    def __init__(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> None:
        self.prefix, self.on_events, self.on_begun = prefix, on_events, on_begun
        self.is_open = False


class SimulatedKeeper:
    """One connection: requests are served in order, answers arrive in order, and so do the items of the watches; items
    and answers may overtake each other."""

    def __init__(self) -> None:
        self.kept: dict[str, KeyValue] = {}
        self.number = 0
        self.counts: Counter[int] = Counter()
        self.is_away = False
        self.written: list[tuple[int, str, bytes | None]] = []
        """Every change with its version."""
        self.told: set[tuple[str, int]] = set()
        """Versions that watches were open for, with the prefix of each."""
        self.requests: deque[tuple[Callable[[], Any], asyncio.Future[Any], bool]] = deque()
        self.answers: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self.items: deque[Callable[[], None]] = deque()
        self.watching: list[Watching] = []

    # -- what the gateway sees -----------------------------------------------------------------------------------

    async def get(self, keys: Sequence[str]) -> list[KeyValue | None]:
        found: list[KeyValue | None] = await self._ask(lambda: [self.kept.get(key) for key in keys])
        return found

    async def scan(self, prefix: str, *, after: str = "", limit: int = MAX_PAGE) -> list[KeyValue]:
        def page() -> list[KeyValue]:
            found = sorted(key for key in self.kept if key.startswith(prefix) and key > after)
            return [self.kept[key] for key in found[: min(limit, MAX_PAGE)]]

        answered: list[KeyValue] = await self._ask(page)
        return answered

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        version: int = await self._ask(lambda: self.change(changes), is_write=True)
        return version

    def age_seconds(self) -> float:
        return 0.0

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        made = Watching(prefix, on_events, on_begun)
        self.watching.append(made)
        self._open(made)
        return lambda: self.watching.remove(made)

    async def _ask(self, evaluate: Callable[[], Any], *, is_write: bool = False) -> Any:
        if self.is_away:
            raise AWAY
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.requests.append((evaluate, answer, is_write))
        return await answer

    def _open(self, watching: Watching) -> None:
        def begin() -> None:
            watching.is_open = True
            self.items.append(watching.on_begun)

        if not self.is_away:
            self.requests.append((begin, asyncio.get_running_loop().create_future(), False))

    # -- what happens --------------------------------------------------------------------------------------------

    def change(self, changes: Sequence[KeyValueChange]) -> int:
        """A write takes effect, and is on its way to the watches."""
        for change in changes:
            found = self.kept.get(change.key)
            version = ABSENT if found is None else found.version
            if change.expected_version is not None and change.expected_version != version:
                raise conflict(change.key, change.expected_version, version)
        version = self._next_version()
        for change in changes:
            self.written.append((version, change.key, change.value))
            if change.value is None:
                self.kept.pop(change.key, None)
            else:
                self.kept[change.key] = KeyValue(change.key, change.value, version)
        for watching in self.watching:
            events = [KeyValueEvent(c.key, c.value, version) for c in changes if c.key.startswith(watching.prefix)]
            if watching.is_open and events:
                self.told.add((watching.prefix, version))
                self.items.append(lambda watching=watching, events=events: watching.on_events(events))  # type: ignore[misc]
        return version

    def _next_version(self) -> int:
        self.counts[self.number] += 1
        return first_place(self.number) + self.counts[self.number]

    def serve(self) -> None:
        evaluate, answer, _ = self.requests.popleft()
        try:
            self.answers.append((evaluate(), answer))
        except EntrepotError as refusal:
            self.answers.append((refusal, answer))

    def deliver_answer(self) -> None:
        answered, answer = self.answers.popleft()
        if answer.done():
            return
        if isinstance(answered, EntrepotError):
            answer.set_exception(answered)
        else:
            answer.set_result(answered)

    def deliver_item(self) -> None:
        self.items.popleft()()

    def lose(self, *, keeps_answers: bool) -> None:
        """The connection ends: what is under way is lost, and a write may have been served or not.  `keeps_answers`:
        those that were given still arrive, perhaps behind what another keeper says."""
        self.is_away = True
        for _, answer, is_write in self.requests:
            if not answer.done():
                answer.set_exception(UNKNOWN if is_write else AWAY)
                answer.exception()
        if not keeps_answers:
            for _, answer in self.answers:
                if not answer.done():
                    answer.set_exception(UNKNOWN)
                    answer.exception()
            self.answers.clear()
        self.requests.clear()
        self.items.clear()
        for watching in self.watching:
            watching.is_open = False

    def find(self, *, moves: bool) -> None:
        """It is back; or another one has it all, whose versions say nothing of those before."""
        self.is_away = False
        if moves:
            self.number = 3 - self.number if self.number else 1
            for key, kept in list(self.kept.items()):
                self.kept[key] = KeyValue(key, kept.value, self._next_version())
        for watching in self.watching:
            self._open(watching)

    def may(self) -> list[Callable[[], None]]:
        """What may happen next by itself."""
        steps: list[Callable[[], None]] = []
        if self.requests:
            steps.append(self.serve)
        if self.answers:
            steps.append(self.deliver_answer)
        if self.items:
            steps.append(self.deliver_item)
        return steps
