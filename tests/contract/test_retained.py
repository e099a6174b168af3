"""Retained messages over every store; two `RetainedMessages` of one store stand for two gateways."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.retained import RETAINED_PREFIX, RetainedLimits, retained_key
from entrepot.gateway.key_values import watched_keys
from entrepot.gateway.retained import retained as module
from entrepot.gateway.retained import writer as retained_writer
from entrepot.gateway.retained.retained import RetainedMessages
from tests.support.clock import ManualClock
from tests.support.stores.retained import names_matching
from tests.support.waiting import PATIENCE_SECONDS, until

ODD_NAMES = ["a\x01b", "n" * 2000, "größe/°C", "/", "a//b"]


@pytest.fixture(autouse=True)
def logged():
    """What is logged, instead of a stream that another test may have closed."""
    with capture_logs() as events:
        yield events


@pytest.fixture
async def gateway(store: Store, clock: ManualClock) -> AsyncIterator[RetainedMessages]:
    retained = RetainedMessages(store, clock, RetainedLimits())
    await retained.start()
    yield retained
    await retained.close()


@pytest.fixture
async def other_gateway(store: Store, clock: ManualClock) -> AsyncIterator[RetainedMessages]:
    retained = RetainedMessages(store, clock, RetainedLimits())
    await retained.start()
    yield retained
    await retained.close()


def message(name: str, body: bytes | str = b"x", expires_at_ms: int | None = None, **fields: object) -> Message:
    raw = body.encode() if isinstance(body, str) else body
    system = {} if expires_at_ms is None else {SystemProperty.EXPIRES_AT_MS: expires_at_ms}
    return Message(name.split("/")[0], raw, name, system=system, **fields)  # type: ignore[arg-type]


def keeping(gateway: RetainedMessages, *messages: Message) -> asyncio.Future[EntrepotError | None]:
    outcome: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
    gateway.keep(messages, outcome.set_result)
    assert not outcome.done()
    return outcome


async def keep(gateway: RetainedMessages, *messages: Message) -> None:
    assert await asyncio.wait_for(keeping(gateway, *messages), PATIENCE_SECONDS) is None


async def bodies(gateway: RetainedMessages, topic_filter: str = "#") -> dict[str, str]:
    return {found.sub_topic: found.body.decode() for found in await gateway.read(names_matching(gateway, topic_filter))}


async def test_what_was_kept_is_told_at_once(gateway):
    await keep(gateway, message("a/1", "one"), message("a/2", "two"), message("b", "three"))
    assert await bodies(gateway, "a/+") == {"a/1": "one", "a/2": "two"}
    await keep(gateway, message("a/1", "newer"))
    assert await bodies(gateway) == {"a/1": "newer", "a/2": "two", "b": "three"}
    await keep(gateway, message("a/1", ""))
    assert sorted(names_matching(gateway, "#")) == ["a/2", "b"]
    assert gateway.count == 2
    assert await gateway.read(["a/1"]) == []


async def test_all_of_a_message_is_kept(gateway):
    system = {SystemProperty.CONTENT_TYPE: "text/plain", SystemProperty.CORRELATION_ID: b"\x00\xff"}
    sent = message("t/x", "body", qos=1, properties=(("a", "1"), ("a", "2")), message_id=b"i" * 16, born_time_ms=7)
    sent.system = system
    await keep(gateway, sent)
    [found] = await gateway.read(["t/x"])
    assert (found.topic, found.sub_topic, found.body, found.qos) == ("t", "t/x", b"body", 1)
    assert (found.properties, dict(found.system)) == (sent.properties, system)
    assert (found.message_id, found.born_time_ms, found.queue_offset) == (b"i" * 16, 7, 0)


async def test_the_last_of_a_name_wins_within_a_call_and_over_calls(gateway):
    calls = [keeping(gateway, message("a", f"{n}"), message("b", f"{n}"), message("a", f"{n}+")) for n in range(50)]
    calls.append(keeping(gateway, message("b", "")))
    assert await asyncio.wait_for(asyncio.gather(*calls), PATIENCE_SECONDS) == [None] * 51
    assert await bodies(gateway) == {"a": "49+"}


async def test_calls_of_one_tick_are_one_write(gateway, store, monkeypatch):
    writes: list[int] = []
    write = store.key_values.write

    async def counted(changes):
        writes.append(len(changes))
        return await write(changes)

    monkeypatch.setattr(store.key_values, "write", counted)
    calls = [keeping(gateway, message(f"a/{n}")) for n in range(200)]
    await asyncio.wait_for(asyncio.gather(*calls), PATIENCE_SECONDS)
    assert writes == [200]


@pytest.mark.parametrize("limit", ["MAX_CHANGES", "MAX_WRITE_BYTES"])
async def test_a_call_that_is_too_much_for_a_write_is_split(gateway, store, monkeypatch, limit):
    monkeypatch.setattr(retained_writer, limit, 7 if limit == "MAX_CHANGES" else 1000)
    sizes: list[int] = []
    write = store.key_values.write

    async def counted(changes):
        sizes.append(len(changes))
        return await write(changes)

    monkeypatch.setattr(store.key_values, "write", counted)
    names = [f"a/{n}" for n in range(30)]
    calls = [keeping(gateway, *(message(name, "x" * 100) for name in names)), keeping(gateway, message("a/0", "last"))]
    assert await asyncio.wait_for(asyncio.gather(*calls), PATIENCE_SECONDS) == [None, None]
    assert len(sizes) > 4 and max(sizes) <= 7
    assert sorted(names_matching(gateway, "a/#")) == sorted(names)
    assert (await bodies(gateway, "a/0")) == {"a/0": "last"}


async def test_names_that_are_no_keys(gateway, other_gateway, store, clock):
    await keep(gateway, *(message(name, name) for name in ODD_NAMES))
    assert await bodies(gateway) == {name: name for name in ODD_NAMES}
    await until(lambda: other_gateway.count == len(ODD_NAMES), "the other gateway does not see them")
    assert await bodies(other_gateway) == {name: name for name in ODD_NAMES}
    later = RetainedMessages(store, clock, RetainedLimits())
    await later.start()
    assert await bodies(later) == {name: name for name in ODD_NAMES}
    await later.close()
    await keep(other_gateway, *(message(name, "") for name in ODD_NAMES))
    await until(lambda: gateway.count == 0, "the gateway does not see that they are gone")
    assert gateway._hashed == other_gateway._hashed == {}


async def test_gateways_see_each_other(gateway, other_gateway):
    await keep(gateway, message("a", "1"), message("b", "1"))
    await until(lambda: other_gateway.count == 2, "the other gateway does not see them")
    await keep(other_gateway, message("a", "2"), message("b", ""))
    await until(lambda: gateway.count == 1, "the gateway does not see what went")
    assert await bodies(gateway) == await bodies(other_gateway) == {"a": "2"}
    assert gateway.size_bytes == other_gateway.size_bytes


async def test_gateways_agree_in_the_end(gateway, other_gateway):
    calls = []
    for n in range(100):
        calls.append(keeping(gateway, message(f"a/{n % 7}", f"{n}")))
        calls.append(keeping(other_gateway, message(f"a/{n % 5}", "" if n % 3 else f"-{n}")))
        if n % 10 == 0:
            await asyncio.sleep(0)
    await asyncio.wait_for(asyncio.gather(*calls), PATIENCE_SECONDS)
    await keep(gateway, message("end/1"))
    await keep(other_gateway, message("end/2"))
    for each in (gateway, other_gateway):
        await until(lambda each=each: len(names_matching(each, "end/+")) == 2, "the ends are not seen")
    assert sorted(names_matching(gateway, "#")) == sorted(names_matching(other_gateway, "#"))
    assert await bodies(gateway) == await bodies(other_gateway)
    assert sorted(names_matching(gateway, "#")) == sorted(await bodies(gateway))
    assert gateway.size_bytes == other_gateway.size_bytes


async def test_a_gateway_that_comes_later_knows_what_there_is(gateway, store, clock, monkeypatch):
    await keep(gateway, *(message(f"a/{n}", f"{n}") for n in range(300)))
    monkeypatch.setattr(watched_keys, "MIN_PAGE", 7)
    monkeypatch.setattr(watched_keys, "PAGE_BYTES", 2000)
    later = RetainedMessages(store, clock, RetainedLimits())
    assert not later.is_complete
    await later.start()
    assert later.is_complete
    assert (later.count, later.size_bytes) == (300, gateway.size_bytes)
    assert await bodies(later) == {f"a/{n}": f"{n}" for n in range(300)}
    await later.close()


async def test_what_changes_while_a_gateway_looks_is_not_undone(gateway, store, clock, monkeypatch):
    await keep(gateway, *(message(f"a/{n:03}", "old") for n in range(100)))
    monkeypatch.setattr(watched_keys, "MIN_PAGE", 5)
    monkeypatch.setattr(watched_keys, "PAGE_BYTES", 0)
    later = RetainedMessages(store, clock, RetainedLimits())
    starting = asyncio.create_task(later.start())
    await until(lambda: later.count > 0, "it does not begin")
    await keep(gateway, message("a/000", ""), message("a/099", ""), message("a/050", "new"), message("b", "new"))
    await asyncio.wait_for(starting, PATIENCE_SECONDS)
    await until(lambda: later.count == 99, lambda: f"it knows {later.count}")
    assert await bodies(later) == await bodies(gateway)
    await later.close()


async def test_batches_in_the_order_of_the_names(gateway, monkeypatch):
    await keep(gateway, *(message(f"a/{n}", "x" * 100) for n in range(50)))
    monkeypatch.setattr(module, "READ_BYTES", 1000)
    names = [f"a/{n}" for n in range(49, -1, -1)]
    names[10:10] = ["gone"]
    found = [[each.sub_topic for each in batch] async for batch in gateway.batches(names)]
    assert [name for batch in found for name in batch] == [name for name in names if name != "gone"]
    assert 5 < len(found) < 20
    monkeypatch.setattr(module, "READ_NAMES", 20)
    monkeypatch.setattr(module, "READ_BYTES", 1 << 20)
    assert [len(batch) async for batch in gateway.batches(names)] == [19, 20, 11]


async def test_what_expired_is_not_told(gateway, clock):
    await keep(gateway, message("a", expires_at_ms=clock.now_ms() + 100), message("b"))
    assert sorted(names_matching(gateway, "#")) == ["a", "b"]
    assert len(await gateway.read(["a", "b"])) == 2
    clock.advance(100)
    assert names_matching(gateway, "#") == ["b"]
    assert [found.sub_topic for found in await gateway.read(["a", "b"])] == ["b"]


async def test_what_expired_is_swept(gateway, other_gateway, store, clock, monkeypatch):
    monkeypatch.setattr(module, "SWEEP_BATCH", 7)
    expiring = [message(f"a/{n}", expires_at_ms=clock.now_ms() + n) for n in range(1, 31)]
    odd = [message(name, expires_at_ms=clock.now_ms() + 1) for name in ODD_NAMES]
    await keep(gateway, *expiring, *odd, message("b"), message("c", expires_at_ms=clock.now_ms() + 10**6))
    assert await gateway.sweep() == 0
    clock.advance(20_000)
    await until(lambda: other_gateway.count == gateway.count, "the other gateway does not see them")
    assert await other_gateway.sweep() == 30 + len(ODD_NAMES)
    assert sorted(names_matching(other_gateway, "#")) == ["b", "c"]
    assert other_gateway.count == 2
    assert await gateway.sweep() == 0
    await until(lambda: gateway.count == 2, "the gateway does not see that they are gone")
    assert [kept.key for kept in await store.key_values.scan(RETAINED_PREFIX)] == [retained_key("b"), retained_key("c")]


async def test_a_sweep_leaves_what_was_replaced_meanwhile(gateway, other_gateway, store, clock, monkeypatch):
    await keep(gateway, message("a", "old", expires_at_ms=clock.now_ms() + 1), message("b", expires_at_ms=1))
    clock.advance(20_000)
    write = store.key_values.write

    async def replaced_before(changes):
        monkeypatch.setattr(store.key_values, "write", write)
        await keep(other_gateway, message("a", "new"))
        return await write(changes)

    monkeypatch.setattr(store.key_values, "write", replaced_before)
    assert await gateway.sweep() == 0
    await until(lambda: names_matching(gateway, "#") == ["a"], "the gateway does not see the new one")
    assert await gateway.sweep() == 1
    assert await bodies(gateway) == {"a": "new"}
    assert [kept.key for kept in await store.key_values.scan(RETAINED_PREFIX)] == ["retained/a"]


async def test_what_is_no_retained_message_is_passed_over(gateway, store, logged):
    await keep(gateway, message("a"), message("b"))
    await store.key_values.write([KeyValueChange("retained/a", b"rubbish"), KeyValueChange("retained/#x", b"more")])
    await until(lambda: names_matching(gateway, "#") == ["b"], lambda: f"it tells {names_matching(gateway, '#')}")
    assert await gateway.read(["a"]) == []
    await keep(gateway, message("a", "again"))
    assert await bodies(gateway) == {"a": "again", "b": "x"}
    assert "warning" in {event["log_level"] for event in logged}


async def test_retained_messages_are_deleted_by_name(gateway):
    await keep(gateway, *(message(f"a/{n}") for n in range(5)), message("b"))
    assert await gateway.delete([*names_matching(gateway, "a/+"), "c"]) == 5
    assert names_matching(gateway, "#") == ["b"]


async def test_limits(store, clock):
    gateway = RetainedMessages(store, clock, RetainedLimits(3, 2000, 900))
    await gateway.start()
    assert gateway.refusal(message("a", "x" * 800)) is None
    assert refused(gateway, message("a", "x" * 900)) is Code.MESSAGE_BODY_TOO_LARGE
    assert refused(gateway, message("a", properties=(("p", "v" * 900),))) is Code.MESSAGE_BODY_TOO_LARGE
    await keep(gateway, message("a", "x" * 800), message("b", "x" * 800))
    assert refused(gateway, message("c", "x" * 400)) is Code.TOO_MANY_REQUESTS
    assert gateway.refusal(message("a", "x" * 850)) is None
    assert gateway.refusal(message("c", "x")) is None
    await keep(gateway, message("c", "x"))
    assert refused(gateway, message("d", "x")) is Code.TOO_MANY_REQUESTS
    assert gateway.refusal(message("c", "y")) is None
    assert gateway.refusal(message("d", "")) is None
    keep_d = keeping(gateway, message("c", ""))
    assert refused(gateway, message("d", "x")) is Code.TOO_MANY_REQUESTS
    await keep_d
    assert gateway.refusal(message("d", "x")) is None
    keep_d = keeping(gateway, message("d", "x"))
    assert refused(gateway, message("e", "x")) is Code.TOO_MANY_REQUESTS  # counts what waits to be written
    await keep_d
    await gateway.close()


def refused(gateway: RetainedMessages, sent: Message) -> Code | None:
    refusal = gateway.refusal(sent)
    return None if refusal is None else refusal.code


async def test_what_no_key_value_takes_is_refused(gateway):
    failure = await asyncio.wait_for(keeping(gateway, message("a"), message("b", "x" * (1 << 20))), PATIENCE_SECONDS)
    assert failure is not None
    assert failure.code is Code.MESSAGE_BODY_TOO_LARGE
    assert gateway.count == 0


async def test_closing_writes_what_was_to_be_kept(store, clock):
    gateway = RetainedMessages(store, clock, RetainedLimits())
    await gateway.start()
    kept = keeping(gateway, message("a"))
    await gateway.close()
    assert kept.done() and kept.result() is None
    assert [each.key for each in await store.key_values.scan(RETAINED_PREFIX)] == ["retained/a"]
