"""The audiences of a message: subscriptions merged by subscriber, subscribers grouped by packet form.

A client whose filters overlap gets one copy, at their highest QoS and with all their identifiers (MQTT 5.0, 3.3.4-2,
-3, -5). Subscribers whose copies are the same bytes except for the packet identifier are one `Audience`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol

from entrepot.domain.delivery import Delivery
from entrepot.domain.message import NO_SYSTEM_PROPERTIES, StoredMessage, SystemProperty
from entrepot.domain.value_space import OnUnsaid
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.protocols.mqtt.encoder import PublishTemplate, publish_template
from entrepot.protocols.mqtt.mapping import to_properties
from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId
from entrepot.protocols.mqtt.recorded import template_of_record

QueueKey = tuple[str, int]
FAN_OUT: Final = "mqtt fan-out"
"""The part of incidents of subscribers outside a share."""
MAX_JOINED: Final = 16
"""Forms of one run that are kept while it is handed out."""


class SubscriptionOptions(NamedTuple):
    """The options of one filter's subscription (3.8.3.1). `identifier` 0: none."""

    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0


class Grant(NamedTuple):
    """A subscriber's options for a message, of all its matching filters together."""

    qos: int
    retain_as_published: bool
    identifiers: tuple[int, ...]


class Subscriber(Protocol):
    """A reader of the log for one client: a connection, or one of its replays."""

    lagging: dict[QueueKey, int] | None
    """Places where it was left behind, by queue: it reads on from there when it has room. A negative one is a time in
    epoch milliseconds, negated."""
    resumed_at: dict[QueueKey, int] | None
    """Places where a session joined the live tails, by queue: earlier messages of QoS 0 are not for it."""

    @property
    def client_id(self) -> str: ...

    @property
    def topic_filters(self) -> Iterable[str]:
        """Its filters, of those the hub knows it by."""

    @property
    def version(self) -> int:
        """Its MQTT protocol level."""

    @property
    def has_backlog(self) -> bool:
        """True if deliveries wait in it."""

    def deliver(self, run: Run) -> int:
        """Send or queue messages; return how many of the run, from its beginning, there was room for."""

    def flush(self) -> None:
        """Write the deliveries."""

    def fail(self) -> None:
        """End the client's connection, after a fault of a delivery."""

    def __hash__(self) -> int: ...


@dataclass(slots=True)
class Run:
    """Messages of one queue for one audience, in order, each with its encoded form. `data`: all of them in one piece if
    all have QoS 0; `largest` is the size of the largest, `size` of all."""

    messages: list[StoredMessage]
    templates: list[PublishTemplate]
    data: bytes | None
    largest: int
    identifiers: tuple[int, ...] = ()
    qos: int = 0
    """QoS of all of them, if equal; else 0."""
    joined: dict[int, bytes] = field(default_factory=dict)
    size: int = 0
    _pieces: list[Run] | None = None

    def packets_from(self, first_id: int) -> bytes:
        """All of them in one piece, with consecutive identifiers; clients that came at the same time have the same."""
        data = self.joined.get(first_id)
        if data is None:
            data = b"".join([template.packet(first_id + at) for at, template in enumerate(self.templates)])
            if len(self.joined) < MAX_JOINED:
                self.joined[first_id] = data
        return data

    def pieces(self, most: int) -> list[Run]:
        """Split into runs of `most` bytes or one message each; subscribers share them."""
        if self._pieces is None:
            self._pieces, start, size = [], 0, 0
            for at, template in enumerate(self.templates):
                if size + template.size > most and at > start:
                    self._pieces.append(self._part(start, at))
                    start, size = at, 0
                size += template.size
            self._pieces.append(self._part(start, len(self.templates)))
        return self._pieces

    def _part(self, start: int, end: int) -> Run:
        return _run_of(self.messages[start:end], self.templates[start:end], self.identifiers)


class Audience:
    """Subscribers that get the same form. Compared by identity."""

    __slots__ = ("grant", "is_five", "subscribers")

    def __init__(self, grant: Grant, is_five: bool, subscribers: tuple[Subscriber, ...]) -> None:
        self.grant = grant
        self.is_five = is_five
        self.subscribers = subscribers


Audiences = dict[tuple[Grant, bool, tuple[Subscriber, ...]], Audience]
"""Existing audiences: topic names with the same subscribers share one, so that their messages go in one run."""


@dataclass(slots=True)
class Match:
    """The subscribers of one topic name."""

    grants: dict[Subscriber, Grant]
    audiences: tuple[Audience, ...]


NOBODY: Final = Match({}, ())


def matched(
    pairs: Iterable[tuple[Subscriber, SubscriptionOptions]], audiences: Audiences, publisher: str | None = None
) -> Match:
    """Merge matching subscriptions; those of `publisher` with No Local are left out (3.8.3-3)."""
    grants: dict[Subscriber, Grant] = {}
    for subscriber, options in pairs:
        if publisher is not None and options.no_local and subscriber.client_id == publisher:
            continue
        identifiers = (options.identifier,) if options.identifier else ()
        held = grants.get(subscriber)
        if held is None:
            grants[subscriber] = Grant(options.qos, options.retain_as_published, identifiers)
        else:
            grants[subscriber] = Grant(
                max(held.qos, options.qos),
                held.retain_as_published or options.retain_as_published,
                held.identifiers + identifiers,
            )
    if not grants:
        return NOBODY
    forms: dict[tuple[Grant, bool], list[Subscriber]] = {}
    for subscriber, grant in grants.items():
        is_five = subscriber.version == 5
        form = (grant, True) if is_five else (Grant(grant.qos, grant.retain_as_published, ()), False)
        forms.setdefault(form, []).append(subscriber)
    found: list[Audience] = []
    for (grant, is_five), subscribers in forms.items():
        key = (grant, is_five, tuple(subscribers))
        audience = audiences.get(key)
        if audience is None:
            audience = audiences[key] = Audience(*key)
        found.append(audience)
    return Match(grants, tuple(found))


def encoded(
    message: StoredMessage, grant: Grant, is_five: bool, now_ms: int, unsaid: OnUnsaid, *, retain: bool
) -> PublishTemplate:
    """The PUBLISH of a message for subscribers with a grant. `unsaid`: told of values that MQTT cannot say."""
    properties: Properties = EMPTY
    if is_five:
        if message.system is not NO_SYSTEM_PROPERTIES or message.properties:
            properties = to_properties(message, now_ms, unsaid)
        if grant.identifiers:
            more: dict[PropertyId, Any] = {**properties, PropertyId.SUBSCRIPTION_IDENTIFIER: list(grant.identifiers)}
            properties = more
    qos = min(grant.qos, message.qos)
    name = message.sub_topic or message.topic
    return publish_template(name, message.body, qos, retain, properties, 5 if is_five else 4)


def make_run(messages: list[StoredMessage], grant: Grant, is_five: bool, now_ms: int, incidents: Incidents) -> Run:
    """Encode messages for an audience. One that cannot be encoded is set aside: it is not in the run."""
    qos, unsaid, templates = grant.qos, incidents.unsaid, []
    try:
        for message in messages:
            if not is_five and not message.system:
                name = message.sub_topic or message.topic
                templates.append(publish_template(name, message.body, min(qos, message.qos), False, EMPTY, 4))
            else:
                templates.append(_encoded_as_published(message, grant, is_five, now_ms, unsaid))
    except Exception:  # noqa: BLE001 - whichever it was, the others are to go on
        return _one_by_one(messages, grant, is_five, now_ms, incidents)
    return _run_of(messages, templates, grant.identifiers)


def _one_by_one(messages: list[StoredMessage], grant: Grant, is_five: bool, now_ms: int, incidents: Incidents) -> Run:
    taken, templates = [], []
    for message in messages:
        try:
            templates.append(_encoded_as_published(message, grant, is_five, now_ms, incidents.unsaid))
            taken.append(message)
        except Exception as fault:  # noqa: BLE001
            incidents.set_aside(FAN_OUT, message, fault)
    return _run_of(taken, templates, grant.identifiers)


def _encoded_as_published(
    message: StoredMessage, grant: Grant, is_five: bool, now_ms: int, unsaid: OnUnsaid
) -> PublishTemplate:
    retain = grant.retain_as_published and bool(message.system) and SystemProperty.RETAIN in message.system
    return encoded(message, grant, is_five, now_ms, unsaid, retain=retain)


def make_share_run(tickets: Sequence[Delivery], grant: Grant, is_five: bool, now_ms: int, unsaid: OnUnsaid) -> Run:
    """Encode a share's deliveries, from their records where possible."""
    templates, version = [], 5 if is_five else 4
    for ticket in tickets:
        record = None if grant.identifiers else ticket.record
        template = None if record is None else template_of_record(record, grant.qos, version)
        templates.append(template or _encoded_as_published(ticket.message, grant, is_five, now_ms, unsaid))
    return _run_of([], templates, grant.identifiers)


def _run_of(messages: list[StoredMessage], templates: list[PublishTemplate], identifiers: tuple[int, ...]) -> Run:
    sizes = [template.size for template in templates]
    kinds = {template.qos for template in templates}
    data = None if any(kinds) else b"".join([template.head for template in templates])
    qos = kinds.pop() if len(kinds) == 1 else 0
    return Run(messages, templates, data, max(sizes, default=0), identifiers, qos, size=sum(sizes))


def in_order(runs: Iterable[tuple[Grant, Run]]) -> list[Run]:
    """Join one subscriber's runs of a queue in the order of the queue: as few runs as its grants allow. In the order of
    the runs instead, it could run out of room at several places, and would miss earlier messages."""
    parts = [
        (message, template, grant)
        for grant, run in runs
        for message, template in zip(run.messages, run.templates, strict=True)
    ]
    parts.sort(key=lambda part: part[0].queue_offset)
    found: list[Run] = []
    for grant, group in groupby(parts, key=lambda part: part[2]):
        same = list(group)
        found.append(_run_of([part[0] for part in same], [part[1] for part in same], grant.identifiers))
    return found
