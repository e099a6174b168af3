"""The request that delivers events: in the subscription's mode, signed, with the sink's settings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from entrepot.domain.names import split_name
from entrepot.gateway.events.subscriptions.record import BATCHED, STRUCTURED, Subscription
from entrepot.gateway.events.webhooks.signature import signed_headers
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.cloudevents import http as binding
from entrepot.protocols.cloudevents import webhook
from entrepot.protocols.cloudevents.event import CloudEvent
from entrepot.protocols.cloudevents.mapping import to_event


@dataclass(frozen=True, slots=True)
class DeliveryRequest:
    """Method, headers and body."""

    method: str
    headers: dict[str, str]
    body: bytes


def request_of(
    subscription: Subscription, tickets: Sequence[Ticket], origin: str, authorization: str | None, now_ms: int
) -> DeliveryRequest:
    """Return the request for these messages: a single one, except in batched mode."""
    record = subscription.record
    events = [to_event(each.message, split_name(each.message.topic)[0]) for each in tickets]
    if record.mode == BATCHED:
        raw, body = binding.to_batch(events)
    elif record.mode == STRUCTURED:
        raw, body = binding.to_structured(events[0])
    else:
        raw, body = binding.to_binary(events[0])
    headers = {name.decode(): value.decode("latin-1") for name, value in raw}
    _add_trace(headers, events)
    headers[webhook.REQUEST_ORIGIN] = origin
    if authorization is not None:
        headers["authorization"] = authorization
    if record.signing_secret:
        headers |= signed_headers(record.signing_secret, message_id_of(tickets), now_ms // 1000, body)
    for name, value in record.headers.items():
        headers[name.lower()] = value
    return DeliveryRequest(record.method, headers, body)


def message_id_of(tickets: Sequence[Ticket]) -> str:
    """The message id: the same for every try of the same events."""
    ids = b"".join(each.message.message_id for each in tickets)
    return "msg_" + (ids.hex() if len(tickets) == 1 else hashlib.sha256(ids).hexdigest()[:32])


def _add_trace(headers: dict[str, str], events: Sequence[CloudEvent]) -> None:
    """Add the trace context of a single event; for several, trace links would be needed, which HTTP does not have."""
    if len(events) != 1:
        return
    for name in ("traceparent", "tracestate"):
        value = events[0].attributes.get(name)
        if value is not None and value.isascii() and value.isprintable():
            headers[name] = value
