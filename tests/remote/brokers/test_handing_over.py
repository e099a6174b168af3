"""Key-values move to another broker: cut at any step and done again, nothing acknowledged is lost or undone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from entrepot.broker.remoting.link import LinkSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.gateway.clock import SystemClock
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.operation import Operation
from entrepot.store_client.remote import RemoteStore
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.directory import Directory
from entrepot.store_client.remote.operating import ClusterOperations
from tests.support.brokers.process_broker import ProcessBroker, start_broker, store_over
from tests.support.stores.steps import refusal_of
from tests.support.waiting import until
from tests.tiers.marks import soak_only

STEPS = (wire.SEAL_KEY_VALUES, wire.IMPORT_KEY_VALUES, rows.SCAN, wire.KEEP_KEY_VALUES)
COUNT = 10
"""Of the steps of a hand-over of one page."""


class Moving:
    """Two brokers, of which `old` keeps the key-values, a gateway that moves them, and another that writes."""

    def __init__(self, brokers: list[ProcessBroker], old: int, mover: RemoteStore, writer: RemoteStore) -> None:
        self.brokers, self.old = brokers, old
        self.mover, self.writer = mover, writer
        self.operations = ClusterOperations(mover.cluster, cast(Directory, None), LinkSettings(), {})

    def client(self, number: int) -> BrokerClient:
        return self.mover.cluster.ready[number]

    async def drain(self) -> None:
        await self.operations.drain(f"broker-{self.old}", is_draining=True)

    def keepers(self) -> list[int]:
        return [number for number, each in enumerate(self.brokers) if each.process.identity.keeps_key_values]

    async def agree(self) -> None:
        """Both gateways know who keeps them."""
        for store in (self.mover, self.writer):
            await until(
                lambda c=store.cluster: [x.number for x in c.ready if x.known.keeps_key_values] == self.keepers(),  # type: ignore[misc]
                "they know the keepers",
            )

    async def there(self) -> dict[str, bytes]:
        return {each.key: each.value for each in await self.writer.key_values.scan("k/")}


@pytest.fixture
def old() -> int:
    """Who keeps them at first."""
    return 0


@pytest.fixture
async def moving(tmp_path: Path, old: int) -> AsyncIterator[Moving]:
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        brokers = [await start_broker(tmp_path, f"broker-{n}", clock, stack, keeps=n == old) for n in (0, 1)]
        mover, writer = [await store_over(brokers, clock, stack) for _ in range(2)]
        moving = Moving(brokers, old, mover, writer)
        await writer.key_values.write(
            [KeyValueChange("k/a", b"old"), KeyValueChange("k/gone", b"x"), KeyValueChange("k/b", b"b")]
        )
        yield moving


def watch_steps(moving: Moving, patch: pytest.MonkeyPatch, at: int, is_done: bool) -> list[Operation]:
    """Cut the hand-over at a step: before it is done, or before its answer comes.  What was asked for."""
    asked: list[Operation] = []
    for number in (0, 1):
        client = moving.client(number)

        async def call(operation: Operation, *arguments: Any, real: Any = client._call, **named: Any) -> Any:
            if operation not in STEPS:
                return await real(operation, *arguments, **named)
            asked.append(operation)
            is_cut = len(asked) == at + 1
            answer = await real(operation, *arguments, **named) if is_done or not is_cut else None
            if is_cut:
                raise EntrepotError(Code.REQUEST_TIMEOUT, "cut short")
            return answer

        patch.setattr(client, "_call", call)
    return asked


@pytest.mark.parametrize("old", [0, 1])
async def test_all_key_values_move_with_their_keeper(moving: Moving, monkeypatch: pytest.MonkeyPatch):
    asked = watch_steps(moving, monkeypatch, -1, False)
    before = await moving.there()
    await moving.drain()
    await moving.agree()
    assert moving.keepers() == [1 - moving.old]
    assert await moving.there() == before
    assert len(asked) == COUNT, "the cuts below are at all of the steps"
    await moving.writer.key_values.write([KeyValueChange("k/a", b"new")])
    await moving.operations.drain(f"broker-{moving.old}", is_draining=False)


@pytest.mark.parametrize("old", [0, soak_only(1)])
@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("at", range(COUNT))
async def test_what_was_cut_is_done_again_and_undoes_nothing(
    moving: Moving, at: int, is_done: bool, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        watch_steps(moving, patch, at, is_done)
        assert await refusal_of(moving.drain()) == Code.REQUEST_TIMEOUT
    for broker in moving.brokers:
        broker.end_seal()
    await moving.agree()
    assert await moving.there() == {"k/a": b"old", "k/gone": b"x", "k/b": b"b"}
    await moving.writer.key_values.write([KeyValueChange("k/a", b"new"), KeyValueChange("k/gone", None)])
    await moving.drain()
    await moving.agree()
    assert moving.keepers() == [1 - moving.old]
    assert await moving.there() == {"k/a": b"new", "k/b": b"b"}


@pytest.mark.parametrize("at", range(1, COUNT))
async def test_writes_after_the_seal_has_ended_are_not_lost(moving: Moving, at: int, monkeypatch: pytest.MonkeyPatch):
    """The hand-over is slow at a step: its seal ends, and there is a write.  It is refused, and begun anew."""
    asked: list[Operation] = []
    with monkeypatch.context() as patch:
        for number in (0, 1):
            client = moving.client(number)

            async def call(operation: Operation, *arguments: Any, real: Any = client._call, **named: Any) -> Any:
                if operation in STEPS:
                    if len(asked) == at:
                        moving.brokers[moving.old].end_seal()
                        await moving.agree()
                        await moving.writer.key_values.write(
                            [KeyValueChange("k/a", b"new"), KeyValueChange("k/gone", None)]
                        )
                    asked.append(operation)
                return await real(operation, *arguments, **named)

            patch.setattr(client, "_call", call)
        assert await refusal_of(moving.drain()) == Code.PRECONDITION_FAILED
    await moving.agree()
    assert moving.old in moving.keepers(), "it has them still"
    assert await moving.there() == {"k/a": b"new", "k/b": b"b"}
    await moving.drain()
    await moving.agree()
    assert moving.keepers() == [1 - moving.old]
    assert await moving.there() == {"k/a": b"new", "k/b": b"b"}


async def test_a_seal_that_has_ended_is_not_renewed_and_gives_nothing_up(moving: Moving):
    client = moving.client(moving.old)
    token = await client.call(wire.SEAL_KEY_VALUES, 0)
    assert await client.call(wire.SEAL_KEY_VALUES, token) == token
    assert await refusal_of(moving.writer.key_values.write([KeyValueChange("k/a", b"new")])) is not None
    moving.brokers[moving.old].end_seal()
    await moving.writer.key_values.write([KeyValueChange("k/a", b"new")])
    assert await refusal_of(client.call(wire.SEAL_KEY_VALUES, token)) == Code.PRECONDITION_FAILED
    assert await refusal_of(client.call(wire.KEEP_KEY_VALUES, False, token)) == Code.PRECONDITION_FAILED
    assert moving.keepers() == [moving.old]


async def test_the_keeper_takes_none_of_another(moving: Moving):
    call = moving.client(moving.old).call(wire.IMPORT_KEY_VALUES, [KeyValueChange("k/a", b"other")], True)
    assert await refusal_of(call) == Code.PRECONDITION_FAILED
    assert (await moving.there())["k/a"] == b"old"
