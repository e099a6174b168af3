"""AmqpServices: objects shared by all connections of the AMQP front end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from entrepot.domain.clock import Clock
from entrepot.gateway.amqp.connections.access import AmqpAccess
from entrepot.gateway.amqp.connections.incomplete_bodies import IncompleteBodies
from entrepot.gateway.amqp.connections.remembered_publishes import RememberedPublishes
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.send import Sender
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings.amqp import AmqpSettings


@dataclass(slots=True)
class AmqpCounters:
    """Counters since the process began."""

    published: int = 0
    confirmed: int = 0
    refused: int = 0
    returned: int = 0
    to_confirm: int = 0
    """Publishes of channels with confirms."""
    dropped: int = 0
    """Publishes that no queue and no Topic took, and that were not to be returned."""
    got_nothing: int = 0
    """Questions of basic.get to an empty queue."""
    connections_opened: int = 0
    """Connections that got their virtual host."""
    channels_opened: int = 0


@dataclass(slots=True)
class AmqpServices:
    """Objects shared by all connections.  `storage_full`: called for a message refused because the store is full."""

    virtual_hosts: VirtualHosts
    sender: Sender
    security: Security
    settings: AmqpSettings
    clock: Clock
    loop: asyncio.AbstractEventLoop
    storage_full: Callable[[], None]
    access: AmqpAccess
    remembered: RememberedPublishes
    incomplete: IncompleteBodies
    counters: AmqpCounters = field(default_factory=AmqpCounters)

    @property
    def incidents(self) -> Incidents:
        """Messages that went to consumers otherwise than stored, or not at all."""
        return self.sender.incidents
