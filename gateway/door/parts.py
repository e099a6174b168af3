"""Parts: what a gateway shares with its doors."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.door.door import Counters, Door
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


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one gateway.  A door hands single ones on to its objects.

    `origins`: origin of each setting that is not its default, by its key.  `sockets`: bound listeners by their names,
    `addresses`: where they are bound.  `is_ready`: False during the start and the drain.  `is_embedded`: another
    program serves the HTTP application.  `chance`: the randomness of ids and pauses.  `counters`: those of the process.
    `data_dir`:
    where the store is, if it is in this process.  `doors`: those that are made so far, for the one that shows them.
    """

    settings: Settings
    store: Store
    clock: Clock
    member: Member
    security: Security
    topology: Topology
    sender: Sender
    routes: Routes
    memberships: Memberships
    retained: RetainedMessages
    wheel: DeadlineWheel
    early: EarlyBytes
    sockets: Mapping[str, socket.socket]
    addresses: Mapping[str, str]
    origins: Mapping[str, str]
    is_ready: Callable[[], bool]
    is_embedded: bool
    chance: Random
    counters: Counters = field(default_factory=dict)
    data_dir: Path | None = None
    doors: list[Door] = field(default_factory=list)
