"""Questions to etcd: their sizes, pages and revisions."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd import EtcdKeyValues
from entrepot.store_client.etcd.calls import TRANSACTION
from entrepot.store_client.etcd.requests import LONGEST_SECONDS, Keys, end_of, transaction, write_seconds
from tests.support.etcd.server import EtcdServer, EtcdState
from tests.support.stores.steps import refusal_of
from tests.unit.etcd.conftest import ROOT

KEYS = Keys(ROOT)
MIB = 1 << 20


def long_keys(count: int, size: int = 200) -> list[str]:
    return [f"{number:05}".ljust(size, "x") for number in range(count)]


async def test_keys_are_behind_the_root(state: EtcdState, key_values: EtcdKeyValues):
    state.do([pb.RequestOp(request_put=pb.PutRequest(key=b"entrepot/test0", value=b"others"))])
    await key_values.write([KeyValueChange("a", b"1")])
    assert sorted(state.keys) == [b"entrepot/test/a", b"entrepot/test0"]
    assert [kept.key for kept in await key_values.scan("")] == ["a"]
    assert end_of(KEYS.stored("")) == b"entrepot/test0"


async def test_odd_keys_are_absent(key_values: EtcdKeyValues):
    assert await key_values.get(["\ud800", "\0", ""]) == [None, None, None]
    assert await key_values.scan("\ud800") == []


async def test_too_large_a_write_is_not_sent(server: EtcdServer, key_values: EtcdKeyValues):
    changes = [KeyValueChange(key, b"", ABSENT) for key in long_keys(10_000, 1000)]
    with pytest.raises(EntrepotError, match="bytes for etcd, not up to 9000000") as refused:
        await key_values.write(changes)
    assert refused.value.code is Code.BAD_REQUEST
    assert server.asked[TRANSACTION.name] == 0


async def test_values_alone_may_be_as_large_as_the_port_says(key_values: EtcdKeyValues):
    await key_values.write([KeyValueChange(f"k{number}", bytes(MIB), ABSENT) for number in range(8)])
    found = await key_values.get([f"k{number}" for number in range(8)])
    assert all(kept is not None and len(kept.value) == MIB for kept in found)


async def test_a_large_write_asks_for_the_conflict_afterwards(server: EtcdServer, key_values: EtcdKeyValues):
    keys = long_keys(6_000)
    await key_values.write([KeyValueChange(keys[4_321], b"mine")])
    await key_values.write([KeyValueChange(keys[4_322], b"mine")])
    server.questions.clear()
    with pytest.raises(EntrepotError, match="'04321x") as refused:
        await key_values.write([KeyValueChange(key, b"", ABSENT) for key in keys])
    assert refused.value.code is Code.PRECONDITION_FAILED
    asked = [each for each in server.questions if isinstance(each, pb.TxnRequest)]
    assert len(asked[0].success) == 6_000 and not asked[0].failure
    assert all(each.request_range.keys_only for question in asked[1:] for each in question.success)


async def test_a_small_write_is_told_the_conflict_at_once(server: EtcdServer, key_values: EtcdKeyValues):
    await key_values.write([KeyValueChange("a", b"1")])
    server.questions.clear()
    changes = [KeyValueChange("b", b""), KeyValueChange("a", b"2", ABSENT)]
    assert await refusal_of(key_values.write(changes)) is Code.PRECONDITION_FAILED
    [asked] = server.questions
    assert [each.request_range.key for each in asked.failure] == [b"entrepot/test/a"]


async def test_large_writes_have_more_time():
    small = transaction([KeyValueChange("a", b"1")], KEYS)
    many = transaction([KeyValueChange(f"{number:05}", b"") for number in range(10_000)], KEYS)
    large = transaction([KeyValueChange(f"{number}", bytes(MIB)) for number in range(8)], KEYS)
    assert write_seconds(small, 2.5) == pytest.approx(2.5, abs=0.01)
    assert 2.5 < write_seconds(many, 2.5) <= LONGEST_SECONDS
    assert 2.5 < write_seconds(large, 2.5) <= LONGEST_SECONDS


async def test_many_keys_are_read_at_one_revision(server: EtcdServer, key_values: EtcdKeyValues, state: EtcdState):
    keys = [f"k{number:03}" for number in range(250)]
    version = await key_values.write([KeyValueChange(key, b"old") for key in keys])
    server.questions.clear()

    async def meddle(name: str) -> None:
        """Another writer is between the groups."""
        if len(server.questions) == 1:
            write = [pb.RequestOp(request_put=pb.PutRequest(key=KEYS.stored(key), value=b"new")) for key in keys]
            state.do(write)

    server.before = meddle
    found = await key_values.get(keys)
    assert {(kept.value, kept.version) for kept in found if kept is not None} == {(b"old", version)}
    assert len(server.questions) == 3


async def test_a_revision_that_is_compacted_while_it_is_read(
    server: EtcdServer, key_values: EtcdKeyValues, state: EtcdState
):
    keys = [f"k{number:03}" for number in range(150)]
    await key_values.write([KeyValueChange(key, b"old") for key in keys])
    server.questions.clear()

    async def compact(name: str) -> None:
        if len(server.questions) == 1:
            state.do([pb.RequestOp(request_put=pb.PutRequest(key=KEYS.stored(key), value=b"new")) for key in keys])
            state.compacted = state.revision

    server.before = compact
    found = await key_values.get(keys)
    assert {kept.value for kept in found if kept is not None} == {b"new"}, "read anew, whole"


async def test_pages_are_bounded_in_bytes(server: EtcdServer, key_values: EtcdKeyValues):
    await key_values.write([KeyValueChange(f"k{n:03}", bytes(48 << 10)) for n in range(160)])
    await key_values.write([KeyValueChange(f"s{n:05}", b"") for n in range(3_000)])
    server.questions.clear()
    assert len(await key_values.scan("k")) == 160
    assert [asked.limit for asked in server.questions if asked.range_end] == [32, 85, 85], "4 MiB by the mean"
    server.questions.clear()
    assert len(await key_values.scan("s")) == 3_000
    assert [asked.limit for asked in server.questions if asked.range_end] == [32, 128, 512, 2_048, 10_000 - 2_720]
    assert {asked.revision for asked in server.questions[1:]} == {server.questions[1].revision}
