"""Retained messages over a store that refuses, is away, or tells late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange, KeyValueEvent, OnEvents
from entrepot.domain.message import Message
from entrepot.domain.retained import RetainedLimits
from entrepot.gateway.key_values import watched_keys
from entrepot.gateway.retained import retained as module
from entrepot.gateway.retained import writer as retained_writer
from entrepot.gateway.retained.record import encode_retained
from entrepot.gateway.retained.retained import RetainedMessages
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced
from tests.support.stores.retained import names_matching
from tests.support.waiting import PATIENCE_SECONDS, until

AWAY = EntrepotError(Code.UNAVAILABLE, "it is away")


class LateStore(MemoryStore):
    """Watches are told only by `tell`; `refusals` are what the next writes fail with; `is_away` refuses scans."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.own = self.key_values
        self.key_values = replaced(self.own, watch=self.watch, write=self.write, scan=self.scan)
        self.refusals: list[EntrepotError | None] = []
        self.untold: list[list[KeyValueEvent]] = []
        self.written: list[list[str]] = []
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()
        self.is_away = False
        self.unsupported: EntrepotError | None = None
        self._watchers: list[OnEvents] = []

    def age_seconds(self) -> float:
        return 0.0

    def watch(self, prefix: str, on_events: OnEvents, on_begun: Callable[[], None]) -> Callable[[], None]:
        if self.unsupported is not None:
            raise self.unsupported
        self._watchers.append(on_events)
        return self.own.watch(prefix, self.untold.append, on_begun)

    def tell(self) -> None:
        told, self.untold = self.untold, []
        for events in told:
            for watcher in self._watchers:
                watcher(events)

    async def write(self, changes: Sequence[KeyValueChange]) -> int:
        self.begun.set()
        await self.may_end.wait()
        if self.refusals and (refusal := self.refusals.pop(0)) is not None:
            raise refusal
        self.written.append([change.key for change in changes])
        return await self.own.write(changes)

    async def scan(self, prefix: str, **options: Any) -> list[KeyValue]:
        if self.is_away:
            raise AWAY
        return await self.own.scan(prefix, **options)


@pytest.fixture(autouse=True)
def logged():
    """What is logged, instead of a stream that another test may have closed."""
    with capture_logs() as events:
        yield events


@pytest.fixture
async def store(clock: ManualClock) -> LateStore:
    return LateStore(clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def retained(store: LateStore, clock: ManualClock):
    opened = RetainedMessages(store, clock, RetainedLimits())
    await opened.start()
    yield opened
    await opened.close()


def keeping(retained: RetainedMessages, name: str, body: str = "x") -> asyncio.Future[EntrepotError | None]:
    outcome: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
    retained.keep([Message("t", body.encode(), name)], outcome.set_result)
    return outcome


def key_value(name: str, body: str = "x") -> KeyValueChange:
    return KeyValueChange(f"retained/{name}", encode_retained(Message("t", body.encode(), name)))


async def test_a_failure_is_told_and_what_comes_later_goes_on(store, retained):
    store.refusals = [AWAY]
    first = keeping(retained, "a")
    assert await first is AWAY
    assert (retained.count, await retained.read(["a"])) == (0, [])
    assert await keeping(retained, "b") is None
    assert names_matching(retained, "#") == ["b"]
    assert (retained._writer.waiting_bytes, retained._writer.waiting_names) == (0, 0)


async def test_what_comes_while_a_write_is_under_way_is_the_next_one(store, retained):
    store.may_end.clear()
    first = keeping(retained, "a", "1")
    await asyncio.wait_for(store.begun.wait(), PATIENCE_SECONDS)
    others = [keeping(retained, "a", "2"), keeping(retained, "b"), keeping(retained, "a", "3")]
    store.may_end.set()
    assert await asyncio.gather(first, *others) == [None] * 4
    assert store.written == [["retained/a"], ["retained/a", "retained/b"]]
    assert [found.body for found in await retained.read(["a"])] == [b"3"]


async def test_the_first_part_that_fails_ends_a_call(store, retained, monkeypatch):
    monkeypatch.setattr(retained_writer, "MAX_CHANGES", 2)
    store.refusals = [None, AWAY]
    outcome: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
    retained.keep([Message("t", b"x", name) for name in "abcdef"], outcome.set_result)
    after = keeping(retained, "g")
    assert (await outcome, await after) == (AWAY, None)
    assert store.written == [["retained/a", "retained/b"], ["retained/g"]]
    assert sorted(names_matching(retained, "#")) == ["a", "b", "g"]


async def test_an_answer_that_fails_does_not_keep_others_from_theirs(retained, logged):
    def bad(_: EntrepotError | None) -> None:
        raise RuntimeError("not ours")

    retained.keep([Message("t", b"x", "a")], bad)
    assert await keeping(retained, "b") is None
    assert await keeping(retained, "c") is None
    assert sorted(names_matching(retained, "#")) == ["a", "b", "c"]
    assert [event["log_level"] for event in logged] == ["error"]


async def test_too_much_that_waits_is_refused(retained, monkeypatch):
    monkeypatch.setattr(retained_writer, "MAX_WAITING_BYTES", 1000)
    first, second = keeping(retained, "a", "x" * 900), keeping(retained, "b", "x" * 900)
    assert await first is None
    failure = await second
    assert failure is not None and failure.code is Code.TOO_MANY_REQUESTS
    assert await keeping(retained, "c", "x" * 2000) is None  # one is always taken


async def test_what_was_kept_is_told_before_the_watch_tells_it(store, retained):
    assert await keeping(retained, "a", "1") is None
    assert names_matching(retained, "#") == ["a"]
    store.tell()
    assert (names_matching(retained, "#"), retained._keys._ahead) == (["a"], {})


async def test_what_the_watch_tells_late_does_not_undo_a_later_write(store, retained):
    await store.write([key_value("a", "another gateway's")])
    await store.write([KeyValueChange("retained/a", None)])
    assert await keeping(retained, "a", "ours") is None
    assert names_matching(retained, "#") == ["a"]
    first, second, _ = store.untold
    for events in (first, second):  # older than ours
        for watcher in store._watchers:
            watcher(events)
        assert names_matching(retained, "#") == ["a"]
    await store.write([KeyValueChange("retained/a", None)])  # newer
    store.untold.remove(first)
    store.untold.remove(second)
    store.tell()
    assert names_matching(retained, "#") == []
    assert retained._keys._ahead == {}


async def test_an_answer_that_comes_late_does_not_undo_what_the_watch_told(store, retained, monkeypatch):
    """The watch tells our write and a newer one before the write returns."""
    write = store.own.write

    async def late(changes: Sequence[KeyValueChange]) -> int:
        version = await write(changes)
        monkeypatch.setattr(store.key_values, "write", write)
        await write([KeyValueChange("retained/a", None)])
        store.tell()
        return version

    monkeypatch.setattr(store.key_values, "write", late)
    assert await keeping(retained, "a") is None
    assert (names_matching(retained, "#"), retained._keys._ahead) == ([], {})


async def test_reading_heals_the_index(store, retained):
    assert await keeping(retained, "a") is None
    store.tell()
    await store.write([KeyValueChange("retained/a", None), key_value("b")])
    store.untold.clear()  # never told
    assert names_matching(retained, "#") == ["a"]
    assert [found.sub_topic for found in await retained.read(["a", "b"])] == ["b"]
    assert names_matching(retained, "#") == ["b"]


async def test_reading_does_not_undo_what_changes_meanwhile(store, retained, monkeypatch):
    get = store.own.get

    async def slow(keys: Sequence[str]) -> list[KeyValue | None]:
        found = await get(keys)
        await keeping(retained, "a")
        return found

    monkeypatch.setattr(store.key_values, "get", slow)
    assert await retained.read(["a"]) == []
    assert names_matching(retained, "#") == ["a"]


async def test_a_store_that_is_away_at_the_start(store, clock, monkeypatch):
    monkeypatch.setattr(watched_keys, "RETRY_SECONDS", 0.001)
    await store.write([key_value("a")])
    store.is_away = True
    retained = RetainedMessages(store, clock, RetainedLimits())
    await retained.start()
    assert (retained.is_complete, retained.count) == (False, 0)
    store.is_away = False
    await until(lambda: retained.is_complete, "it does not look again")
    assert names_matching(retained, "#") == ["a"]
    await retained.close()


async def test_a_store_without_key_values(store, clock):
    store.unsupported = EntrepotError(Code.UNSUPPORTED, "there are none")
    retained = RetainedMessages(store, clock, RetainedLimits())
    await retained.start()
    refusal = retained.refusal(Message("t", b"x", "a"))
    assert refusal is not None and refusal.code is Code.UNSUPPORTED
    failure = await keeping(retained, "a")
    assert failure is not None and failure.code is Code.UNSUPPORTED
    assert (names_matching(retained, "#"), retained.is_complete) == ([], False)
    await retained.close()


async def test_sweeps_go_on_after_one_that_failed(store, clock, retained, monkeypatch):
    monkeypatch.setattr(module, "SWEEP_SECONDS", 0.001)
    sweeping = RetainedMessages(store, clock, RetainedLimits())
    await sweeping.start()
    await store.write([KeyValueChange("retained/a", encode_retained(expiring("a", clock.now_ms() + 1)))])
    store.tell()
    store.refusals = [AWAY]
    clock.advance(20_000)
    await until(lambda: sweeping.count == 0, "it is not swept")
    assert store.refusals == []
    assert await store.own.get(["retained/a"]) == [None]
    await sweeping.close()


def expiring(name: str, at_ms: int) -> Message:
    return Message("t", b"x", name, system={"expires_at_ms": at_ms})


async def test_a_page_of_the_start_does_not_undo_what_the_watch_told(store, clock, monkeypatch):
    """The watch tells that one is gone, and a new one, while a page that is older is on its way."""
    await store.write([key_value("a"), key_value("b")])
    scan = store.own.scan

    async def slow(prefix: str, **options: Any) -> list[KeyValue]:
        found = await scan(prefix, **options)
        monkeypatch.setattr(store.key_values, "scan", scan)
        await store.write([KeyValueChange("retained/a", None), key_value("b", "longer than before")])
        store.tell()
        return found

    monkeypatch.setattr(store.key_values, "scan", slow)
    retained = RetainedMessages(store, clock, RetainedLimits())
    await retained.start()
    [b] = await store.own.get(["retained/b"])
    assert b is not None
    assert (names_matching(retained, "#"), retained.size_bytes) == (["b"], len(b.value))
    await retained.close()
