"""The parts of a gateway over a store, with the clock of a test."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.member import Member
from entrepot.gateway.messaging.membership import Memberships
from entrepot.gateway.messaging.routes import Routes
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.retained.retained import RetainedMessages
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.gateway.transport.early_bytes import EarlyBytes


def parts_of(
    store: Store,
    settings: Settings,
    clock: Clock,
    *,
    is_ready: Callable[[], bool] = lambda: True,
    is_alone: bool = True,
) -> Parts:
    """Its parts on the running loop, without listeners."""
    topology, identity = Topology(store, settings.topics), Identity("gateway")
    return Parts(
        settings,
        store,
        clock,
        Member(store, clock, identity, is_alone=is_alone),
        Security(store.key_values, settings.security, clock),
        topology,
        Sender(store, topology, clock, identity),
        Routes(store, topology, settings.topics.rules),
        Memberships(store, clock, settings.groups),
        RetainedMessages(store, clock, settings.retained_limits),
        DeadlineWheel(asyncio.get_running_loop()),
        EarlyBytes(1 << 30),
        {},
        {},
        {},
        is_ready,
        False,
        random.Random(0),
    )
