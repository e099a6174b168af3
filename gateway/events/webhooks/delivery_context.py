"""The objects and counts that all deliverers of a gateway share."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from entrepot.domain.clock import Clock
from entrepot.domain.ports import Store
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.access_tokens import AccessTokens
from entrepot.gateway.events.webhooks.handshake import Handshake
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.settings import WebhookSettings

PART: Final = "webhook"
"""The part of incidents of deliveries."""


@dataclass(slots=True)
class WebhookCounters:
    """Counts of this gateway's deliveries by outcome."""

    delivered: int = 0
    failed: int = 0
    dead_letters: int = 0
    requests: int = 0


@dataclass(slots=True)
class DeliveryContext:
    """Objects shared by all deliverers of a gateway."""

    store: Store
    clock: Clock
    subscriptions: Subscriptions
    client: SinkClient
    tokens: AccessTokens
    handshake: Handshake
    settings: WebhookSettings
    slots: asyncio.Semaphore
    jitter: random.Random
    incidents: Incidents
    gateway: str = ""
    counters: WebhookCounters = field(default_factory=WebhookCounters)
