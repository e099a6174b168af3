"""Another cluster's table is a topic here, which is read and never written, as far as it went when it was attached."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.tiered.opening_store import lies_in
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.tiering import AttachRequest, TableSeen, TableTopic
from entrepot.domain.topic import Permission
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.waiting import until
from tests.tiered.test_tier import QUEUES, TOPIC, all_uploaded, opened, published, root

COUNT = 100


def theirs(tmp_path: Path) -> str:
    return (tmp_path / "their-cold").as_uri()


def their_broker(tmp_path: Path, clock: ManualClock) -> Any:
    """Number 7 of another cluster."""
    return opened(tmp_path / "theirs", clock, theirs(tmp_path), number=7)


def ours(tmp_path: Path, clock: ManualClock, **tier: Any) -> Any:
    """A broker that may attach their tables."""
    return opened(tmp_path, clock, attach_urls=(theirs(tmp_path),), **tier)


async def attached(store: Broker, request: AttachRequest) -> TableTopic:
    await until(lambda: store.tier is not None and not store.tier.problem, "the object store is reached")
    return await store.tables.attach(request)


async def read(store: Broker, topic: str, queue_id: int, first: int = 0) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    end = store.engine.dispatcher.queue(topic, queue_id).visible_offset
    while first < end:
        page = await store.messages.read(topic, queue_id, first, 64)
        found += page
        first = page[-1].queue_offset + 1
    return found


def snapshot(directory: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(directory.rglob("*")) if path.is_file()}


async def test_a_table_of_another_cluster_is_read_as_a_topic(tmp_path: Path) -> None:
    clock = ManualClock()
    async with their_broker(tmp_path, clock) as their:
        await their.topology.put_topic(TOPIC)
        await published(their, clock, 0, COUNT)
        before = {queue_id: await read(their, "factory", queue_id) for queue_id in range(QUEUES)}
        await all_uploaded(their, COUNT)
        table = root(their)
        async with ours(tmp_path, clock) as store:
            found = await attached(store, AttachRequest(theirs(tmp_path), name="copy"))
            assert (found.topic.name, found.topic.permission, found.topic.tier_seconds) == (
                "copy",
                Permission.READ,
                None,
            )
            assert found.table == f"{theirs(tmp_path)}/{table}"
            assert [(b.queue_id, b.min_offset, b.max_offset) for b in found.queues] == [(0, 0, COUNT), (1, 0, COUNT)]
            for queue_id in range(QUEUES):
                messages = await read(store, "copy", queue_id)
                assert without_topic(messages) == without_topic(before[queue_id])
                assert {message.topic for message in messages} == {"copy"}
            position = Position(PositionKind.TIME, before[1][70].store_time_ms)
            assert await store.messages.offset_at("copy", 1, position) <= 70
            [refusal] = await append_all(store, Message("copy", b"x", queue_id=0))
            assert refusal is Code.FORBIDDEN
            live: list[StoredMessage] = []
            tail = store.messages.tail("copy", 0, 0, live.extend)
            await until(lambda: len(live) == COUNT, "a tail reads all of it")
            assert [each.queue_offset for each in live] == list(range(COUNT))
            tail.close()

            await published(their, clock, COUNT, 100)  # what comes there is not here
            await all_uploaded(their, COUNT + 100)
            [(topic, origin)] = store.tier.attached.origins().items()  # type: ignore[union-attr]
            await store.tier.attached.know(topic, origin)  # type: ignore[union-attr]
            assert [b.max_offset for b in await store.messages.bounds("copy")] == [COUNT, COUNT]
            page = await store.messages.pull("copy", 0, COUNT - 5, 50)
            assert (page.messages[-1].queue_offset, page.next_offset, page.max_offset) == (COUNT - 1, COUNT, COUNT)
            assert len(await read(store, "copy", 0)) == COUNT
            again = await attached(store, AttachRequest(theirs(tmp_path), table, "copy"))  # until it is attached again
            assert [(b.min_offset, b.max_offset) for b in again.queues] == [(0, COUNT + 100)] * QUEUES
            assert len(await read(store, "copy", 0)) == COUNT + 100
        async with ours(tmp_path, clock) as store:  # after a start, too
            assert [bounds.min_offset for bounds in await store.messages.bounds("copy")] == [0] * QUEUES, (
                "it is waited for"
            )
            assert [each.queue_offset for each in await read(store, "copy", 1)] == list(range(COUNT + 100))
            objects = snapshot(tmp_path / "their-cold")
            await store.topology.delete_topic("copy")
            assert store.topology.topic("copy") is None
            assert snapshot(tmp_path / "their-cold") == objects, "they lose nothing by it"
        await published(their, clock, COUNT + 100, 100)
        await all_uploaded(their, COUNT + 200)
        assert not their.tier.progress[table].problem, "and go on undisturbed"  # type: ignore[union-attr]


def without_topic(messages: list[StoredMessage]) -> list[tuple[Any, ...]]:
    """All but the name and the place in the log."""
    names = [name for name in StoredMessage.__dataclass_fields__ if name not in ("topic", "commit_log_offset")]
    return [tuple(getattr(message, name) for name in names) for message in messages]


async def test_a_table_that_cannot_be_read_for_now(tmp_path: Path) -> None:
    """Nothing is passed over: the topic is there, and reading it is refused until its table is back."""
    clock = ManualClock()
    async with their_broker(tmp_path, clock) as their:
        await their.topology.put_topic(TOPIC)
        await published(their, clock, 0, COUNT)
        await all_uploaded(their, COUNT)
    async with ours(tmp_path, clock) as store:
        await attached(store, AttachRequest(theirs(tmp_path)))
    (tmp_path / "their-cold").rename(tmp_path / "away")
    async with ours(tmp_path, clock) as store:
        assert store.tier is not None
        await until(lambda: store.tier.attached.problems, "it is told")  # type: ignore[union-attr]
        with pytest.raises(EntrepotError) as raised:
            await store.messages.read("factory", 0, 0, 1)
        assert raised.value.code is Code.UNAVAILABLE
        (tmp_path / "away").rename(tmp_path / "their-cold")
        [(topic, origin)] = store.tier.attached.origins().items()
        await store.tier.attached.know(topic, origin)
        assert len(await store.messages.read("factory", 0, 0, 10)) == 10


async def test_what_is_refused(tmp_path: Path) -> None:
    clock = ManualClock()
    async with their_broker(tmp_path, clock) as their:
        await their.topology.put_topic(TOPIC)
        await their.topology.put_topic(replace(TOPIC, name="other"))
        await published(their, clock, 0, 100)
        await append_all(their, Message("other", b"x", queue_id=0))
        await all_uploaded(their, 100)
        other = their.tier.root(their.registry.topics["other"])  # type: ignore[union-attr]
        await until(lambda: their.tier.progress[other].ends == {0: 1}, "the other one, too")  # type: ignore[union-attr]
        table = root(their)
    async with ours(tmp_path, clock, attach_endpoints=("http://known",)) as store:
        await store.topology.put_topic(replace(TOPIC, name="mine"))
        url = theirs(tmp_path)
        for request, code, words in (
            (AttachRequest(url), Code.BAD_REQUEST, f"name one: {table}, {other}"),
            (AttachRequest(url, "factory/none"), Code.TOPIC_NOT_FOUND, table),
            (AttachRequest(url, table, "mine"), Code.PRECONDITION_FAILED, "say another name"),
            (AttachRequest(url, table, "%DLQ%x"), Code.FORBIDDEN, "the system's own"),
            (AttachRequest(url, table, "lab/x"), Code.BAD_REQUEST, "no namespace 'lab'"),
            (AttachRequest(f"{url}/nowhere"), Code.TOPIC_NOT_FOUND, "is not a folder"),
            (AttachRequest((tmp_path / "nowhere").as_uri()), Code.FORBIDDEN, "tier.attach_urls alone"),
            (AttachRequest(tmp_path.as_uri()), Code.FORBIDDEN, "tier.attach_urls alone"),
            (AttachRequest(f"{url}-2"), Code.FORBIDDEN, "tier.attach_urls alone"),
            (AttachRequest("nonsense"), Code.BAD_REQUEST, "not an object store's URL"),
            (AttachRequest("s3://b", endpoint="http://h"), Code.FORBIDDEN, "tier.attach_endpoints"),
            (AttachRequest("s3://b", endpoint="https://h"), Code.FORBIDDEN, "tier.attach_endpoints"),
            (AttachRequest("s3://b", endpoint="http://known"), Code.FORBIDDEN, "tier.attach_urls alone"),
        ):
            with pytest.raises(EntrepotError) as raised:
                await attached(store, request)
            assert (raised.value.code, words in raised.value.message) == (code, True), raised.value
        assert not (tmp_path / "nowhere").exists()
        found = await attached(store, AttachRequest(url, table))
        for change in ({"permission": Permission.READ_WRITE}, {"tier_seconds": 5}):
            [refusal] = await store.topology.put_topics([replace(found.topic, **change)])
            assert refusal is not None and refusal.code is Code.PRECONDITION_FAILED
        with pytest.raises(EntrepotError, match="say another name"):
            await attached(store, AttachRequest(url, other, "factory"))


async def test_a_table_tells_which_topic_its_messages_were_written_for(tmp_path: Path) -> None:
    """Its path does not: a URL may begin in the middle of it.  And a link leads nowhere else."""
    clock = ManualClock()
    async with their_broker(tmp_path, clock) as their:
        await their.topology.put_topic(TOPIC)
        await published(their, clock, 0, COUNT)
        await all_uploaded(their, COUNT)
        table = root(their)
    async with ours(tmp_path, clock) as store:
        await until(lambda: store.tier is not None and not store.tier.problem, "the object store is reached")
        folder, _, name = table.partition("/")
        for url, path in ((theirs(tmp_path), table), (f"{theirs(tmp_path)}/{folder}", name)):
            assert await store.tables.look(AttachRequest(url, path)) == TableSeen(path, "factory")
        assert not store.registry.topics, "nothing was made"
        (tmp_path / "their-cold" / "link").symlink_to(tmp_path / "elsewhere")
        for url in (f"{theirs(tmp_path)}/link", (tmp_path / "elsewhere").as_uri()):
            with pytest.raises(EntrepotError, match="attach_urls alone") as refused:
                await store.tables.look(AttachRequest(url))
            assert refused.value.code is Code.FORBIDDEN


@cases(
    "url, place, expected",
    [
        ("s3://b/entrepot", "s3://b/entrepot/", True),
        ("s3://b/entrepot/x", "s3://b/entrepot", True),
        ("s3://b/entrepot-2", "s3://b/entrepot", False),
        ("s3://b", "s3://b/entrepot", False),
        ("s3://b2/entrepot", "s3://b/entrepot", False),
        ("gs://b/entrepot", "s3://b/entrepot", False),
        ("s3://b/any", "s3://b", True),
        ("file:///cold/x", "file://localhost/cold", True),
        ("file:///cold%2Fx", "file:///cold", True),
        ("file:///colder", "file:///cold", False),
    ],
)
def test_where_a_place_lies(url: str, place: str, expected: bool) -> None:
    assert lies_in(url, place) is expected
