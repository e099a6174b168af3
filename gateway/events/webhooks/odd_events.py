"""Odd events: those whose handling fails by a fault of our own. Each is set aside, and the others go on."""

from __future__ import annotations

from entrepot.gateway.messaging.incidents import Incidents, Outcome, place_of
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket


def set_aside(incidents: Incidents, part: str, leased: LeasedConsumer, ticket: Ticket, fault: Exception) -> None:
    """Make a dead letter of an event, and note it with its place and the reason."""
    try:
        message = ticket.message
    except Exception:  # noqa: BLE001 - that it cannot be read may be the fault itself
        reason = f"{type(fault).__name__}: {fault}"
        incidents.note(part, Outcome.SET_ASIDE, reason, place=_place_of(ticket), fault=fault)
    else:
        incidents.set_aside(part, message, fault)
    leased.reject((ticket,), f"a fault of the server: {type(fault).__name__}")


def _place_of(ticket: Ticket) -> str:
    """The place of an event that cannot be read, as far as the store tells it."""
    topic, places = ticket.consumer.topic, ticket.run.places((ticket.index,))
    return topic if places is None else place_of(topic, places.queue_id, places.offsets[0])
