"""Questions that nobody was asked, as no master was there, are asked of the next one; nothing else is asked again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire import store_rows as rows
from entrepot.protocols.wire.operation import Operation
from entrepot.store_client.remote import riding
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.riding import rides
from tests.support.waiting import until

AWAY = ConnectionLostError("broker 'b' is not available: it says goodbye")
UNKNOWN = EntrepotError(Code.OUTCOME_UNKNOWN, "lost before it was answered")


class Port:
    """`refusals`: of its calls, in turn.  Its one broker may have replicas."""

    def __init__(self, *refusals: EntrepotError, replicas: bool = True) -> None:
        known = SimpleNamespace(replicas=((1, "a:1"), (2, "b:1")) if replicas else ())
        self.client = SimpleNamespace(known=known, is_ready=False)
        self._cluster = SimpleNamespace(clients={"a:1": self.client}, ready_watchers=[])
        self._refusals = list(refusals)
        self.calls = 0

    @rides
    async def ask(self, question: str) -> str:
        self.calls += 1
        if self._refusals:
            raise self._refusals.pop(0)
        return f"answer to {question}"

    def come(self) -> None:
        """A master is there."""
        self.client.is_ready = True
        for watcher in tuple(self._cluster.ready_watchers):
            watcher(self.client, True)


async def test_it_waits_for_the_next_master() -> None:
    port = Port(AWAY)
    asked = asyncio.ensure_future(port.ask("this"))
    await until(lambda: port._cluster.ready_watchers, "it waits")
    port.come()
    assert await asked == "answer to this"
    assert port.calls == 2 and not port._cluster.ready_watchers


async def test_a_broker_that_is_taken_for_there_is_asked_again() -> None:
    port = Port(AWAY, AWAY)
    port.client.is_ready = True
    assert await port.ask("this") == "answer to this"


async def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(riding, "RIDE_SECONDS", 0.05)
    for is_ready in (False, True):
        port = Port(*[AWAY] * 100)
        port.client.is_ready = is_ready
        with pytest.raises(ConnectionLostError):
            await port.ask("this")
        assert not port._cluster.ready_watchers


@pytest.mark.parametrize(("refusal", "replicas"), [(UNKNOWN, True), (AWAY, False)])
async def test_what_may_have_been_done_or_has_no_next_master_is_told_at_once(
    refusal: EntrepotError, replicas: bool
) -> None:
    port = Port(refusal, replicas=replicas)
    with pytest.raises(EntrepotError) as told:
        await port.ask("this")
    assert told.value is refusal and port.calls == 1


async def test_a_replica_that_is_not_master_has_done_nothing() -> None:
    class Link:
        problem = address = ""

        async def call(self, operation: Operation, *arguments: Any, **others: Any) -> Any:
            raise EntrepotError(Code.BAD_REQUEST, f"operation {operation.number} {wire.NOT_HERE}")

    client = BrokerClient.__new__(BrokerClient)
    client.link, client.info, client.reported = Link(), None, None  # type: ignore[assignment]
    client.is_ready, client.request_seconds = True, 1.0
    with pytest.raises(ConnectionLostError, match="its master has moved"):
        await client.ask(rows.GET.ask(["key"]))
