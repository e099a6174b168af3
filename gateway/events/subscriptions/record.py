"""The stored records of a subscription, and the compiled form at this gateway.

`subscriptions/definition/<namespace>/<id>` is the definition, with its secrets. `subscriptions/state/<namespace>/<id>`
is its state: the receiver's consent, a suspension. `subscriptions/topic/<topic>` names the group that dispatches a
topic, and is written again with every change of one of its subscriptions.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from entrepot.domain.errors import EntrepotError
from entrepot.domain.event_filters.event_filter import AnyFilter, EventFilters, ExactFilter
from entrepot.domain.event_filters.event_filter_json import parse_event_filters
from entrepot.domain.names import qualified, subscription_feed

DEFINITION_PREFIX: Final = "subscriptions/definition/"
STATE_PREFIX: Final = "subscriptions/state/"
TOPIC_PREFIX: Final = "subscriptions/topic/"

BINARY: Final = "binary"
STRUCTURED: Final = "structured"
BATCHED: Final = "batched"
OPTIONAL: Final = "optional"
OFF: Final = "off"
LATEST: Final = "latest"
GROUP_PREFIX: Final = "webhook~"
CATCH_UP_PREFIX: Final = "catchup~"
DISPATCH_PREFIX: Final = "dispatch~"


class Credential(msgspec.Struct, frozen=True, omit_defaults=True, rename="lower"):
    """The credential for a sink: PLAIN, ACCESSTOKEN, REFRESHTOKEN (Subscriptions 3.2.3) or OAUTH2. An OAUTH2 token is
    got with the client's own credentials."""

    credentialtype: str
    identifier: str = ""
    secret: str = ""
    accesstoken: str = ""
    accesstokentype: str = "Bearer"
    accesstokenexpiresutc: str = ""
    refreshtoken: str = ""
    tokenendpoint: str = ""
    scope: str = ""


class SubscriptionRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The definition; `begins` is the first offset of each queue of the topic to dispatch to it. Earlier messages, from
    `start` on, are read by its own catch-up group while it `is_catching_up`."""

    id: str
    namespace: str
    topic: str
    sink: str
    created_ms: int
    types: tuple[str, ...] = ()
    filters: list[dict[str, Any]] = []
    mode: str = BINARY
    batch_size: int = 100
    is_ordered: bool = False
    max_attempts: int = 16
    timeout_seconds: float = 30.0
    initial_backoff_ms: int = 1000
    max_backoff_ms: int = 600_000
    max_age_seconds: int = 0
    handshake: str = OPTIONAL
    rate_per_minute: int = 0
    method: str = "POST"
    headers: dict[str, str] = {}
    credential: Credential | None = None
    signing_secret: str = ""
    start: str = LATEST
    begins: dict[str, int] = {}
    is_catching_up: bool = False
    updated_ms: int = 0
    owner: str = ""
    """User who made it; empty for nobody in particular."""
    tls: str = ""
    token_tls: str = ""
    """Names in `webhooks.tls` for its sink and its token endpoint; empty: the system's authorities, no certificate."""


class TlsChoice(NamedTuple):
    """The choice of TLS for a request: a name in `webhooks.tls`, by a subscription to a topic."""

    name: str
    topic: str


USUAL_TLS: Final = TlsChoice("", "")
"""The system's authorities, and no certificate of our own."""


class StateRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a subscription; `consent` is "" while unknown, then "granted" or "denied"."""

    consent: str = ""
    allowed_rate: int = 0
    """Requests per minute; 0 for any number."""
    asked_ms: int = 0
    tries: int = 0
    callback_token: str = ""
    suspended: str = ""
    """Reason of a suspension; empty for an active subscription."""
    quiet_until_ms: int = 0
    """End of the pause that the sink asked of all gateways (Retry-After), in epoch milliseconds."""
    sink: str = ""
    """Sink that this state is about: it does not apply to another one."""


class TopicRecord(msgspec.Struct, frozen=True):
    """The group that dispatches a topic."""

    group: str


_RECORD: Final = msgspec.json.Decoder(SubscriptionRecord)
decode_state: Final = msgspec.json.Decoder(StateRecord).decode
decode_topic: Final = msgspec.json.Decoder(TopicRecord).decode
"""Decoders of the other records. Raise ValueError."""


class Subscription:
    """A definition with its filters compiled."""

    def __init__(self, record: SubscriptionRecord) -> None:
        self.record = record
        self.filters = filters_of(record)

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def topic(self) -> str:
        return self.record.topic

    @cached_property
    def key(self) -> str:
        return key_of(self.record.namespace, self.record.id)

    @property
    def sink_tls(self) -> TlsChoice:
        """For requests to its sink."""
        return TlsChoice(self.record.tls, self.topic)

    @property
    def token_tls(self) -> TlsChoice:
        """For requests to its token endpoint."""
        return TlsChoice(self.record.token_tls, self.topic)

    @cached_property
    def feed(self) -> str:
        """The Topic of the messages that wait for its sink."""
        return subscription_feed(self.record.namespace, self.record.id)

    @cached_property
    def group(self) -> str:
        """The group whose consumers deliver to its sink."""
        return qualified(self.record.namespace, GROUP_PREFIX + self.record.id)

    @cached_property
    def catch_up_group(self) -> str:
        """The group that reads the messages from before the subscription."""
        return qualified(self.record.namespace, CATCH_UP_PREFIX + self.record.id)

    def begins_at(self, queue_id: int) -> int:
        """The first offset of a queue of its topic to dispatch to it."""
        return self.record.begins.get(str(queue_id), 0)


def key_of(namespace: str, subscription_id: str) -> str:
    return f"{namespace}/{subscription_id}"


def filters_of(record: SubscriptionRecord) -> EventFilters:
    """Return the filters, all of which must match. Raises EventFilterError."""
    filters = parse_event_filters(record.filters).filters
    if record.types:
        types = tuple(ExactFilter((("type", each),)) for each in record.types)
        filters = (types[0] if len(types) == 1 else AnyFilter(types), *filters)
    return EventFilters(filters)


def encode_subscription(subscription: Subscription) -> bytes:
    return msgspec.json.encode(subscription.record)


def decode_subscription(value: bytes) -> Subscription:
    """Decode a definition. Raises ValueError."""
    try:
        return Subscription(_RECORD.decode(value))
    except (msgspec.MsgspecError, EntrepotError) as error:
        raise ValueError(str(error)) from None
