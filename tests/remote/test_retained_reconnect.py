"""Retained messages of a gateway whose broker is away for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.retained import RetainedLimits
from entrepot.gateway.retained.retained import RetainedMessages
from tests.support.brokers.served_broker import ServedBroker, connect
from tests.support.clock import ManualClock
from tests.support.stores.retained import names_matching
from tests.support.waiting import PATIENCE_SECONDS, until


async def keep(retained: RetainedMessages, *messages: Message) -> EntrepotError | None:
    outcome: asyncio.Future[EntrepotError | None] = asyncio.get_running_loop().create_future()
    retained.keep(messages, outcome.set_result)
    return await asyncio.wait_for(outcome, PATIENCE_SECONDS)


async def test_what_changed_while_the_broker_was_not_reached_is_seen(tmp_path: Path) -> None:
    clock = ManualClock()
    served = await ServedBroker.open(BrokerSettings(tmp_path / "data"), clock)
    store = await connect(served, clock=clock)
    far, near = (RetainedMessages(each, clock, RetainedLimits()) for each in (store, served.broker))
    await near.start()
    await keep(near, *(Message("t", b"old", name) for name in ("a", "b", "c")))
    await far.start()
    assert sorted(names_matching(far, "#")) == ["a", "b", "c"]
    await keep(far, Message("t", b"ours", "d"))
    await until(lambda: near.count == 4, "the broker's own gateway does not see it")

    await served.stop()
    failure = await keep(far, Message("t", b"lost", "e"))
    assert failure is not None and failure.code in (Code.UNAVAILABLE, Code.OUTCOME_UNKNOWN)
    assert await keep(near, Message("t", b"", "a"), Message("t", b"newer", "b"), Message("t", b"", "d")) is None
    assert await keep(near, Message("t", b"new", "f")) is None
    await served.serve()

    await until(lambda: sorted(names_matching(far, "#")) == ["b", "c", "f"], lambda: f"{names_matching(far, '#')}")
    assert [found.body for found in await far.read(["b", "c", "f"])] == [b"newer", b"old", b"new"]
    assert far.size_bytes == near.size_bytes
    assert await keep(far, Message("t", b"again", "e")) is None
    assert "e" in names_matching(far, "#")
    for each in (far, near, store, served):
        await each.close()
