"""Key-values: versions, conditions, scans, watches."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import (
    ABSENT,
    MAX_CHANGES,
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    KeyValue,
    KeyValueChange,
    KeyValueEvent,
)
from entrepot.domain.ports import Store
from tests.support.cases import cases
from tests.support.stores.steps import refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until


async def put(store: Store, **facts: str) -> int:
    return await store.key_values.write([KeyValueChange(key, value.encode()) for key, value in facts.items()])


async def test_what_is_read_is_current(store: Store) -> None:
    await put(store, a="1")
    await until(lambda: store.key_values.age_seconds() == 0.0, "its watchers have had time to learn what there is")


async def values(store: Store, *keys: str) -> list[bytes | None]:
    return [None if fact is None else fact.value for fact in await store.key_values.get(keys)]


async def test_what_was_written_is_there(store: Store):
    version = await put(store, a="1", b="2")
    assert await store.key_values.get(["b", "no", "a", "b"]) == [
        KeyValue("b", b"2", version),
        None,
        KeyValue("a", b"1", version),
        KeyValue("b", b"2", version),
    ]
    assert await store.key_values.get([]) == []


async def test_a_value_may_be_empty_and_is_not_a_deleted_one(store: Store):
    version = await store.key_values.write([KeyValueChange("a", b"")])
    assert await store.key_values.get(["a"]) == [KeyValue("a", b"", version)]
    await store.key_values.write([KeyValueChange("a", None)])
    assert await store.key_values.get(["a"]) == [None]


async def test_versions_grow_even_through_a_deletion(store: Store):
    first = await put(store, a="1")
    second = await put(store, a="2", b="1")
    third = await store.key_values.write([KeyValueChange("a", None)])
    fourth = await put(store, a="3")
    assert ABSENT < first < second < third < fourth
    assert await store.key_values.get(["a", "b"]) == [KeyValue("a", b"3", fourth), KeyValue("b", b"1", second)]


async def test_deleting_what_is_not_there_is_no_mistake(store: Store):
    await store.key_values.write([KeyValueChange("a", None), KeyValueChange("b", b"1")])
    assert await values(store, "a", "b") == [None, b"1"]


async def test_a_write_says_which_version_it_expects(store: Store):
    first = await store.key_values.write([KeyValueChange("a", b"1", ABSENT)])
    second = await store.key_values.write([KeyValueChange("a", b"2", first)])
    for expected in (ABSENT, first, second + 1):
        assert (
            await refusal_of(store.key_values.write([KeyValueChange("a", b"x", expected)])) == Code.PRECONDITION_FAILED
        )
    assert await refusal_of(store.key_values.write([KeyValueChange("new", b"x", second)])) == Code.PRECONDITION_FAILED
    assert await refusal_of(store.key_values.write([KeyValueChange("a", None, first)])) == Code.PRECONDITION_FAILED
    await store.key_values.write([KeyValueChange("a", None, second)])
    await store.key_values.write([KeyValueChange("a", b"3", ABSENT)])
    assert await values(store, "a", "new") == [b"3", None]


async def test_a_write_is_done_whole_or_not_at_all(store: Store):
    await put(store, a="1", b="1")
    changes = [
        KeyValueChange("a", b"2"),
        KeyValueChange("c", b"2", ABSENT),
        KeyValueChange("first wrong", b"2", 77),
        KeyValueChange("b", None),
        KeyValueChange("second wrong", b"2", 78),
    ]
    with pytest.raises(EntrepotError, match="first wrong") as refused:
        await store.key_values.write(changes)
    assert refused.value.code == Code.PRECONDITION_FAILED
    assert await values(store, "a", "b", "c") == [b"1", b"1", None]


@cases(
    "changes",
    [
        [KeyValueChange("", b"")],
        [KeyValueChange("a\n", b"")],
        [KeyValueChange("k" * (MAX_KEY_BYTES + 1), b"")],
        [KeyValueChange("a", b"v" * (MAX_VALUE_BYTES + 1))],
        [KeyValueChange("a", b"1"), KeyValueChange("a", b"2")],
        [KeyValueChange(f"a{i}", b"") for i in range(MAX_CHANGES + 1)],
    ],
    ids=["empty key", "not printable", "long key", "long value", "twice", "many"],
)
async def test_limits_of_a_write(store: Store, changes: list[KeyValueChange]):
    assert await refusal_of(store.key_values.write([KeyValueChange("ok", b"1"), *changes])) == Code.BAD_REQUEST
    assert await store.key_values.scan("") == []


async def test_the_longest_key(store: Store):
    key = "\u00fc" * (MAX_KEY_BYTES // 2)
    await store.key_values.write([KeyValueChange(key, b"v")])
    assert await values(store, key) == [b"v"]


async def test_many_changes_at_once(store: Store):
    version = await store.key_values.write([KeyValueChange(f"k/{i:05d}", b"v") for i in range(2_000)])
    found = await store.key_values.scan("k/")
    assert [fact.key for fact in found] == [f"k/{i:05d}" for i in range(2_000)]
    assert {fact.version for fact in found} == {version}


async def test_scanning_goes_by_prefix_in_the_order_of_code_points(store: Store):
    keys = ["a/2", "a/10", "a/\u00e9", "a/\U0001f600", "a/\uffee", "a", "a0", "b/1", "A/1"]
    await store.key_values.write([KeyValueChange(key, key.encode()) for key in keys])
    assert [fact.key for fact in await store.key_values.scan("a/")] == [
        "a/10",
        "a/2",
        "a/\u00e9",
        "a/\uffee",
        "a/\U0001f600",
    ]
    assert [fact.key for fact in await store.key_values.scan("a")][:2] == ["a", "a/10"]
    assert [fact.key for fact in await store.key_values.scan("")] == sorted(keys)
    assert await store.key_values.scan("c") == []


async def test_scanning_page_by_page(store: Store):
    await store.key_values.write([KeyValueChange(f"k{i}", b"") for i in range(7)])
    pages, after = [], ""
    while page := await store.key_values.scan("k", after=after, limit=3):
        pages.append([fact.key for fact in page])
        after = page[-1].key
    assert pages == [["k0", "k1", "k2"], ["k3", "k4", "k5"], ["k6"]]
    assert [fact.key for fact in await store.key_values.scan("k", after="k4zzz")] == ["k5", "k6"]


async def test_watching_tells_the_changes_of_each_write_in_order(store: Store):
    seen: list[list[KeyValueEvent]] = []
    store.key_values.watch("a/", seen.append, lambda: None)
    first = await store.key_values.write(
        [KeyValueChange("a/1", b"x"), KeyValueChange("b/1", b"x"), KeyValueChange("a/2", b"y")]
    )
    await store.key_values.write([KeyValueChange("b/1", b"z")])
    third = await store.key_values.write([KeyValueChange("a/1", None)])
    await until(lambda: len(seen) == 2, "two writes of the prefix")
    assert seen == [
        [KeyValueEvent("a/1", b"x", first), KeyValueEvent("a/2", b"y", first)],
        [KeyValueEvent("a/1", None, third)],
    ]


async def test_what_is_written_once_a_watch_has_begun_is_told(store: Store):
    begun = asyncio.Event()
    seen: list[list[KeyValueEvent]] = []
    await put(store, before="1")
    store.key_values.watch("", seen.append, begun.set)
    await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
    version = await put(store, after="1")
    await until(lambda: seen, "it is told")
    assert seen == [[KeyValueEvent("after", b"1", version)]]


async def test_a_refused_write_is_not_told(store: Store):
    seen: list[list[KeyValueEvent]] = []
    store.key_values.watch("", seen.append, lambda: None)
    assert await refusal_of(store.key_values.write([KeyValueChange("a", b"1"), KeyValueChange("b", b"1", 5)]))
    version = await put(store, c="1")
    await until(lambda: seen, "the good write")
    assert seen == [[KeyValueEvent("c", b"1", version)]]


async def test_a_watch_ends(store: Store):
    ended: list[list[KeyValueEvent]] = []
    goes_on: list[list[KeyValueEvent]] = []
    stop = store.key_values.watch("", ended.append, lambda: None)
    store.key_values.watch("", goes_on.append, lambda: None)
    await put(store, a="1")
    await until(lambda: ended and goes_on, "both")
    stop()
    await put(store, a="2")
    await until(lambda: len(goes_on) == 2, "the one that goes on")
    assert len(ended) == 1
