"""One identity of a gateway: its message ids, the keys of what it holds, and its name in journeys."""

from __future__ import annotations

import asyncio

from entrepot.gateway.messaging.provenance import gateway_of
from entrepot.gateway.settings import Settings
from tests.support.clock import ManualClock
from tests.support.gateways.parts import parts_of
from tests.support.stores.model_store import MemoryStore
from tests.support.waiting import PATIENCE_SECONDS


async def test_a_new_incarnation_is_in_ids_made_from_then_on_and_is_introduced() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    parts = parts_of(store, Settings(), clock)
    identity, sender = parts.member.identity, parts.sender
    await sender.provenance.introduce("gateway one")
    before, incarnation = sender.new_message_id(), identity.incarnation
    assert before[6:12].hex() == incarnation
    assert await gateway_of(store, before) == "gateway_one"
    identity.renew()
    assert identity.incarnation != incarnation
    after = sender.new_message_id()
    assert after[6:12].hex() == identity.incarnation
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (name := await gateway_of(store, after)):
            await asyncio.sleep(0)
    assert name == await gateway_of(store, before) == "gateway_one"
