"""A subscription as it is kept, and what this gateway makes of it.

`subscriptions/definition/<namespace>/<id>` is the definition, with its secrets; `subscriptions/state/<namespace>/<id>`
what has become of it (the receiver's consent, that it is gone); `subscriptions/topic/<topic>` names the group that
dispatches a topic, and is written again with every change of one of its subscriptions.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import msgspec

from domain.errors import EntrepotError
from domain.expression.event_filter import AnyFilter, EventFilters, ExactFilter
from domain.expression.event_filter_json import parse_event_filters
from domain.names import qualified, subscription_feed

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
    """What a sink is shown: PLAIN, ACCESSTOKEN, REFRESHTOKEN (Subscriptions 3.2.3), or OAUTH2, whose token is got
    with a client's own credentials."""

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
    """The definition.  `begins`: of each queue of the topic the offset from which on dispatch is for it; what is
    before it, from `start` on, is for its own group while it `is_catching_up`."""

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


class StateRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has become of a subscription.  `consent`: "" while it is not known, "granted" or "denied"."""

    consent: str = ""
    allowed_rate: int = 0
    """Requests each minute; 0 is any."""
    asked_ms: int = 0
    tries: int = 0
    callback_token: str = ""
    suspended: str = ""
    """Why nothing is sent any more; empty: it is."""
    quiet_until_ms: int = 0
    """The sink asked all of us to leave it alone until then (Retry-After)."""
    sink: str = ""
    """The sink that all this is of: it says nothing of another one."""


class TopicRecord(msgspec.Struct, frozen=True):
    """The group that dispatches a topic."""

    group: str


_RECORD: Final = msgspec.json.Decoder(SubscriptionRecord)
_STATE: Final = msgspec.json.Decoder(StateRecord)
_TOPIC: Final = msgspec.json.Decoder(TopicRecord)


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

    @cached_property
    def feed(self) -> str:
        """The Topic that holds what waits for its sink."""
        return subscription_feed(self.record.namespace, self.record.id)

    @cached_property
    def group(self) -> str:
        """The group whose consumers deliver it."""
        return qualified(self.record.namespace, GROUP_PREFIX + self.record.id)

    @cached_property
    def catch_up_group(self) -> str:
        """The group that reads what was there before it."""
        return qualified(self.record.namespace, CATCH_UP_PREFIX + self.record.id)

    def begins_at(self, queue_id: int) -> int:
        """The first offset of a queue of its topic that dispatch is to look at for it."""
        return self.record.begins.get(str(queue_id), 0)


def key_of(namespace: str, subscription_id: str) -> str:
    return f"{namespace}/{subscription_id}"


def filters_of(record: SubscriptionRecord) -> EventFilters:
    """All that must hold.  Raises EventFilterError."""
    filters = parse_event_filters(record.filters).filters
    if record.types:
        types = tuple(ExactFilter((("type", each),)) for each in record.types)
        filters = (types[0] if len(types) == 1 else AnyFilter(types), *filters)
    return EventFilters(filters)


def encode_subscription(subscription: Subscription) -> bytes:
    return msgspec.json.encode(subscription.record)


def decode_subscription(value: bytes) -> Subscription:
    """Raises ValueError."""
    try:
        return Subscription(_RECORD.decode(value))
    except (msgspec.MsgspecError, EntrepotError) as error:
        raise ValueError(str(error)) from None


def encode_state(state: StateRecord) -> bytes:
    return msgspec.json.encode(state)


def decode_state(value: bytes) -> StateRecord:
    """Raises ValueError."""
    return _STATE.decode(value)


def encode_topic(topic: TopicRecord) -> bytes:
    return msgspec.json.encode(topic)


def decode_topic(value: bytes) -> TopicRecord:
    """Raises ValueError."""
    return _TOPIC.decode(value)
