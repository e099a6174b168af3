"""EventParts: rules of events, subscriptions and webhooks of one gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from entrepot.gateway.door.door import Counters
from entrepot.gateway.events.deduplication import Deduplication
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.webhooks import Webhooks

if TYPE_CHECKING:
    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.events.admission import Admission
    from entrepot.gateway.events.rules import EventRules


@dataclass(frozen=True, slots=True)
class EventParts:
    """The parts of CloudEvents.  `admission`: what examines the messages of all doors, by the rules of their topics."""

    admission: Admission
    deduplication: Deduplication
    subscriptions: Subscriptions
    webhooks: Webhooks

    @classmethod
    def of(cls, parts: Parts, admission: Admission) -> EventParts:
        """Make the parts of a gateway."""
        store, settings, clock = parts.store, parts.settings, parts.clock
        subscriptions = Subscriptions(store, settings.webhooks.max_subscriptions)
        webhooks = Webhooks(
            store,
            subscriptions,
            settings.webhooks,
            clock,
            settings.http.event_type,
            parts.chance,
            parts.sender.incidents,
            parts.member.identity.name,
        )
        return cls(admission, Deduplication(store, clock), subscriptions, webhooks)

    @property
    def rules(self) -> EventRules:
        """The rules of topics."""
        return self.admission.rules

    def counters(self) -> Counters:
        """Return the counters of events and webhooks."""
        webhooks, deduplication, admission = self.webhooks, self.deduplication, self.admission
        return {
            "entrepot_webhook_requests": ("Requests to webhook sinks", lambda: webhooks.counters.requests),
            "entrepot_webhook_deliveries": ("Events accepted by webhook sinks", lambda: webhooks.counters.delivered),
            "entrepot_webhook_failures": (
                "Failed delivery attempts to webhook sinks",
                lambda: webhooks.counters.failed,
            ),
            "entrepot_webhook_dead_letters": (
                "Events dead-lettered by webhook subscriptions",
                lambda: webhooks.counters.dead_letters,
            ),
            "entrepot_event_duplicates": ("Duplicate events dropped", lambda: deduplication.dropped),
            "entrepot_event_schema_refusals": ("Events refused by a topic's schema", lambda: admission.refused),
            "entrepot_event_schema_diversions": ("Events diverted by a topic's schema", lambda: admission.diverted),
        }
