"""Statements that are not ours to keep, and those that we do not keep to the letter, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Unbound:
    """A statement that nothing here can break."""

    number: str
    text: str
    why: str


_PRODUCERS: Final = "Binds producers alone."
_AUTHORS: Final = "Binds who defines extensions or formats."

UNBOUND: Final = (
    Unbound("CORE 1.1-3", "Producers are ready for consumers that pass over optional features", _PRODUCERS),
    Unbound("CORE 1.1-4", "An event format defines a structured mode", _AUTHORS),
    Unbound("CORE 2.1-5", "A typed programming model converts from and to the canonical strings", "We are not an SDK."),
    Unbound("CORE 3.1.1-3", "source and id together are unique", _PRODUCERS + " Those we make: CORE 3.1.1-2."),
    Unbound("CORE 3.1.1-4", "type should begin with a reversed domain", _PRODUCERS + " Those we make: CORE 3.1.1-2."),
    Unbound("CORE 3.1.2-6", "An incompatible schema should have another dataschema", _PRODUCERS),
    Unbound("CORE 3.1.2-7", "All producers of a source take time in the same way", _PRODUCERS),
    Unbound("CORE 3.2-3", "Extensions should be defined wholly, with telling names that nobody has yet", _AUTHORS),
    Unbound("CORE 3.2-4", "An extension that copies values elsewhere should say which of them counts", _AUTHORS),
    Unbound("CORE 4-2", "Events should be small, with links to what is large", _PRODUCERS),
    Unbound("CORE 5-2", "Nothing sensitive should be in attributes; data should be encrypted", _PRODUCERS),
    Unbound("HTTP 3.3-4", "A format for batched mode defines its batches", _AUTHORS),
    Unbound("JSON 2.2-4", "An extension with a mapping of its own keeps the first, and maps all formats", _AUTHORS),
    Unbound(
        "WEBHOOK 2.2-8",
        "Without a payload the answer is 201 or 204; 202 where it is not processed yet",
        "Our answers have a payload, and come when the events are on the disk.",
    ),
    Unbound("WEBHOOK 3.2-4", "A sender of a token in the query sends Cache-Control: no-store", "We send none there."),
    Unbound("WEBHOOK 4.2-5", "A receiver without OPTIONS answers 405", "Our publish paths handle it."),
)

DEVIATIONS: Final = {
    "CORE 3.1-2": "Any source that is not empty is taken and forwarded as it came: many in the field are plain names "
    "with spaces, and whoever reads them is better served by the event than by a refusal.",
    "CORE 3.1.2-2": "A dataschema with a fragment is taken, which an absolute URI has not: JSON schemas are pointed "
    "into by fragments.",
    "CORE 3.2-2": "Other HTTP headers are not passed on, but for the trace context: they are about the connection, and "
    "may hold credentials.",
    "CORE 4-1": "An event of 64 KiB is refused where it has more than 128 attributes, a name of more than 128 "
    "characters, or a subject of more than 199 levels.",
    "WEBHOOK 2.1-1": "Deliveries are PUTs where the subscription asks for that, as the Subscriptions API lets it. In "
    "binary mode an event without a datacontenttype has no Content-Type: it would be an attribute that nobody set.",
    "WEBHOOK 2.1-2": "`webhooks.allow_http` permits http, for networks that are secured otherwise; it is off.",
    "WEBHOOK 2.1-3": "An event without data has an empty body in binary mode, which is what the HTTP binding says; "
    "structured and batched mode always have a payload.",
    "WEBHOOK 2.2-3": "A Retry-After of more than a day counts as a day. Each gateway learns it by an answer of its "
    "own, and forgets it when it starts anew.",
    "WEBHOOK 2.2-9": "A topic that was deleted is not told from one that never was: it is made by the next event, or "
    "the answer is 404 where `topics.auto_create` is off.",
    "WEBHOOK 3-1": "Without a sinkcredential there is no token: the URL may be the secret, or the signature the proof. "
    "The credential PLAIN of the Subscriptions API is sent as Basic.",
    "WEBHOOK 4.2-1": "Headers of consent beside a status other than 2xx are not a consent.",
    "WEBHOOK 4.2.2-1": "Consent without a WebHook-Allowed-Rate is taken, and allows any rate up to the subscription's.",
}
"""By number."""
