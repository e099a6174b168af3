"""Writes that go to etcd together: each has the outcome that it would have alone."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd import EtcdKeyValues, combining
from entrepot.store_client.etcd.calls import TRANSACTION
from entrepot.store_client.etcd.combining import Combined
from entrepot.store_client.etcd.requests import Keys, transaction
from tests.support.etcd.server import EtcdServer, EtcdState, Fault
from tests.support.stores.steps import refusal_of

KEYS = Keys("r/")
Changes = list[KeyValueChange]


class Etcd:
    """A store that answers when it is told to, and counts transactions."""

    def __init__(self) -> None:
        self.state = EtcdState()
        self.asked: list[pb.TxnRequest] = []
        self.opened = asyncio.Event()

    async def ask(self, question: pb.TxnRequest) -> pb.TxnResponse:
        self.asked.append(question)
        await self.opened.wait()
        holds = all(map(self.state.is_true, question.compare))
        responses = self.state.do(question.success if holds else question.failure)
        return pb.TxnResponse(header=self.state.header(), succeeded=holds, responses=responses)


def write(combined: Combined, *changes: KeyValueChange) -> asyncio.Task[pb.TxnResponse]:
    question = transaction(changes, KEYS)
    return asyncio.ensure_future(combined.write(question, [KEYS.stored(change.key) for change in changes]))


async def fill(combined: Combined, etcd: Etcd) -> list[asyncio.Task[pb.TxnResponse]]:
    """Writes that are under way: what comes now waits."""
    first = [write(combined, KeyValueChange(f"first{n}", b"")) for n in range(combining.MAX_UNDER_WAY)]
    while len(etcd.asked) < combining.MAX_UNDER_WAY:
        await asyncio.sleep(0)
    return first


async def test_a_write_alone_goes_as_it_is() -> None:
    etcd = Etcd()
    etcd.opened.set()
    await write(Combined(etcd.ask), KeyValueChange("a", b"1", ABSENT))
    assert etcd.asked == [transaction([KeyValueChange("a", b"1", ABSENT)], KEYS)]


async def test_what_comes_meanwhile_goes_together_and_each_has_its_own_outcome() -> None:
    etcd = Etcd()
    combined = Combined(etcd.ask)
    first = await fill(combined, etcd)
    rest = [write(combined, KeyValueChange(f"k{n}", b"1", ABSENT if n % 3 else 77)) for n in range(300)]
    etcd.opened.set()
    answers = await asyncio.gather(*rest)
    assert [answer.succeeded for answer in answers] == [n % 3 > 0 for n in range(300)]
    assert len({answer.header.revision for answer in answers}) == 1 and answers[0].header.revision
    assert len(etcd.asked) == combining.MAX_UNDER_WAY + 1
    assert all(answer.succeeded for answer in await asyncio.gather(*first))
    assert sorted(etcd.state.keys) == sorted(
        KEYS.stored(key) for key in [*(f"first{n}" for n in range(4)), *(f"k{n}" for n in range(300) if n % 3)]
    )


async def test_writes_of_one_key_keep_their_order() -> None:
    etcd = Etcd()
    combined = Combined(etcd.ask)
    await fill(combined, etcd)
    writes = [write(combined, KeyValueChange("k", str(n).encode()), KeyValueChange(f"o{n}", b"")) for n in range(20)]
    etcd.opened.set()
    await asyncio.gather(*writes)
    assert etcd.state.keys[KEYS.stored("k")].value == b"19"
    values = [event.kv.value for _, events in etcd.state.history for event in events if event.kv.key == b"r/k"]
    assert values == [str(n).encode() for n in range(20)]


async def test_a_large_write_goes_alone_and_a_batch_has_an_end() -> None:
    etcd = Etcd()
    combined = Combined(etcd.ask)
    await fill(combined, etcd)
    large = write(combined, *(KeyValueChange(f"l{n}", bytes(200_000)) for n in range(8)))
    rest = [write(combined, KeyValueChange(f"k{n}", bytes(10_000))) for n in range(400)]
    etcd.opened.set()
    await asyncio.gather(large, *rest)
    sizes = [question.ByteSize() for question in etcd.asked[combining.MAX_UNDER_WAY :]]
    assert sizes[0] > 1_600_000, "alone"
    assert all(size < combining.MAX_BYTES + 20_000 for size in sizes[1:])
    assert len(etcd.state.keys) == 4 + 8 + 400


async def test_more_than_the_limit_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combining, "MAX_WAITING_BYTES", 1000)
    etcd = Etcd()
    combined = Combined(etcd.ask)
    first = await fill(combined, etcd)
    waits = write(combined, KeyValueChange("a", bytes(800)))
    await asyncio.sleep(0)
    assert await refusal_of(write(combined, KeyValueChange("b", bytes(800)))) is Code.UNAVAILABLE
    waits.cancel()
    etcd.opened.set()
    await asyncio.gather(*first)
    await write(combined, KeyValueChange("b", bytes(800)))
    assert KEYS.stored("a") not in etcd.state.keys, "nobody waits for it any more"


async def test_who_is_closed_with_writes_waiting_tells_them() -> None:
    etcd = Etcd()
    combined = Combined(etcd.ask)
    first = await fill(combined, etcd)
    waits = write(combined, KeyValueChange("a", b""))
    await asyncio.sleep(0)
    combined.close()
    assert await refusal_of(waits) is Code.UNAVAILABLE
    etcd.opened.set()
    await asyncio.gather(*first)
    assert await refusal_of(write(combined, KeyValueChange("b", b""))) is Code.UNAVAILABLE


async def test_an_unknown_outcome_is_that_of_all_and_none_is_repeated(
    server: EtcdServer, key_values: EtcdKeyValues
) -> None:
    release = asyncio.Event()

    async def held(name: str) -> None:
        if name == TRANSACTION.name:
            await release.wait()

    server.before = held
    first = [asyncio.ensure_future(key_values.write([KeyValueChange(f"f{n}", b"")])) for n in range(4)]
    rest = [asyncio.ensure_future(key_values.write([KeyValueChange(f"k{n}", b"", ABSENT)])) for n in range(20)]
    while server.asked[TRANSACTION.name] < 4:
        await asyncio.sleep(0.001)
    lost = Fault(grpc.StatusCode.UNAVAILABLE, "the connection broke", is_done=True)
    server.faults[TRANSACTION.name] = [lost]
    release.set()
    await asyncio.gather(*first)
    codes = [await refusal_of(each) for each in rest]
    assert set(codes) == {Code.OUTCOME_UNKNOWN}
    assert [kept.value for kept in await key_values.scan("k")] == [b""] * 20, "done once, and told as unknown"


@given(st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True), max_size=30), st.data())
async def test_together_is_as_one_after_the_other(writes: list[list[str]], data: st.DataObject) -> None:
    """Outcomes and keys are those of writes one after the other, whatever goes together."""
    conditions = data.draw(st.lists(st.sampled_from((None, ABSENT)), min_size=len(writes), max_size=len(writes)))
    asked: list[Changes] = [
        [KeyValueChange(key, f"{n}".encode(), condition) for key in keys]
        for n, (keys, condition) in enumerate(zip(writes, conditions, strict=True))
    ]

    async def outcomes(opened: bool) -> tuple[list[bool], dict[bytes, bytes]]:
        etcd = Etcd()
        combined = Combined(etcd.ask)
        waiting: list[asyncio.Task[pb.TxnResponse]] = []
        if opened:
            etcd.opened.set()
        for changes in asked:
            waiting.append(write(combined, *changes))
            if opened:
                await waiting[-1]
            else:
                await asyncio.sleep(0)
        etcd.opened.set()
        answers = [(await each).succeeded for each in waiting]
        return answers, {key: kept.value for key, kept in etcd.state.keys.items()}

    alone = await outcomes(True)
    assert await outcomes(False) == alone
