"""Odd messages: those of a group whose handling fails by a fault of our own. Each is set aside, and the others go on.

The rule: an odd message goes to the group's dead-letter topic, with the fault as its reason. So it stops nothing, is in
the incidents, and can be looked at and sent again.
"""

from __future__ import annotations

from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.messaging.ticket import Ticket


def set_aside(incidents: Incidents, part: str, ticket: Ticket, fault: Exception) -> None:
    """Make a dead letter of a message, and note it with its place and the reason."""
    try:
        message = ticket.message
    except Exception:  # noqa: BLE001 - that it cannot be read may be the fault itself
        reason = f"{type(fault).__name__}: {fault}"
        incidents.note(part, Outcome.SET_ASIDE, reason, place=ticket.place, fault=fault)
    else:
        incidents.set_aside(part, message, fault)
    ticket.consumer.reject((ticket,), f"a fault of the server: {type(fault).__name__}")
