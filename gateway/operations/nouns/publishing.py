"""`POST /topics/{topic}:publish`: CloudEvents in binary, structured and batched mode of the HTTP binding.

The answer comes when every event is durable.  A publish that only waits for the store is taken before there is a
request (`http/requests/publish.py`), by the same checks.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta

from entrepot.domain.access.model import NAMESPACE_LEVEL, Action, ResourceType
from entrepot.domain.names import (
    DEFAULT_NAMESPACE,
    NAMESPACE_SEPARATOR,
    check_topic_name,
    is_subscription_feed,
    is_system_topic,
    qualified,
)
from entrepot.domain.ports.cluster import SINGLE, Clustered, control_of
from entrepot.gateway.operations.nouns.batch_refusals import check_batch, refusal_of
from entrepot.gateway.operations.nouns.event_schema import EVENT, EVENT_REFERENCE
from entrepot.gateway.operations.nouns.published_events import CONFIRM_HEADER, examined, messages_of
from entrepot.gateway.operations.row.asked import Asked, known_namespace
from entrepot.gateway.operations.row.change_names import NO_CHANGE
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import HANDLERS_OWN, OPEN, PROTOCOL
from entrepot.gateway.operations.row.shapes import Head, Like, Part, PlainName, Raw, shown_as
from entrepot.gateway.security.security import refusal_of as rights_refusal
from entrepot.protocols.cloudevents import webhook
from entrepot.protocols.cloudevents.http import BATCH_MEDIA_TYPE, STRUCTURED_MEDIA_TYPE

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.clock import Clock
    from entrepot.domain.message import Message
    from entrepot.domain.ports import Store
    from entrepot.gateway.events.deduplication import Deduplication
    from entrepot.gateway.events.rules import EventRules
    from entrepot.gateway.messaging.send import Refusals, Sender
    from entrepot.gateway.messaging.topology import Topology
    from entrepot.gateway.security.security import Security
    from entrepot.gateway.settings import Settings

PUBLISH: Final = "/topics/{topic}:publish"
_BINARY: Final = {"type": "string", "format": "binary"}
_REFERENCE: Final = EVENT_REFERENCE.extra_json_schema
_MODES: Final = {
    STRUCTURED_MEDIA_TYPE: (_REFERENCE, EVENT),
    BATCH_MEDIA_TYPE: ({"type": "array", "items": _REFERENCE}, [EVENT]),
    "application/cloudevents+protobuf": (_BINARY, None),
    "application/cloudevents-batch+protobuf": (_BINARY, None),
    "*/*": (_BINARY, "21.5"),
}
_ABOUT: Final = (
    "Binary mode has the attributes in `ce-` headers and the data as the body; structured and batched mode have whole "
    "events in the body.  The Content-Type tells which it is."
)
_Text = Annotated[str | None, Like(str)]


def _attribute(name: str, example: str) -> Meta:
    return Meta(extra_json_schema={"description": f"`{name}` of an event in binary mode", "examples": [example]})


class EventHead(Head, rename="kebab", frozen=True):
    ce_specversion: Annotated[_Text, _attribute("specversion", "1.0")] = None
    ce_id: Annotated[_Text, _attribute("id", "1")] = None
    ce_source: Annotated[_Text, _attribute("source", "/line1")] = None
    ce_type: Annotated[_Text, _attribute("type", "reading")] = None
    ce_subject: Annotated[_Text, _attribute("subject", "line1/temp")] = None
    ce_time: Annotated[_Text, _attribute("time", "2026-12-01T08:00:00Z")] = None
    entrepot_confirm: Annotated[_Text, Meta(description="Asks on how many disks the events are")] = None


class HandshakeHead(Head, rename="kebab", frozen=True):
    webhook_request_origin: Annotated[_Text, Meta(description="The origin that wants to send")] = None


class PublishResult(Part, frozen=True):
    """Event Grid's PublishResult, which is empty."""


shown_as(PublishResult())
_PUBLISHED: Final = PublishResult()

EVENTS: Final = Noun("publish", PUBLISH, is_in_namespaces=True, prefix="")


class Publishing:
    """The operation of publishing.  `published`: events taken since the start, refused ones included."""

    def __init__(
        self,
        store: Store,
        sender: Sender,
        topology: Topology,
        security: Security,
        rules: EventRules,
        deduplication: Deduplication,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._store, self._sender, self._topology, self._security = store, sender, topology, security
        self._rules, self._deduplication, self._clock = rules, deduplication, clock
        self._control = control_of(store)
        is_elsewhere = isinstance(store, Clustered)  # its brokers know their limit
        self._max_message_bytes = sys.maxsize if is_elsewhere else settings.store.max_message_bytes
        self.max_batch_events = settings.http.max_batch_events
        self.published = 0

    @EVENTS.post(
        "",
        "publishCloudEvents",
        "Publish CloudEvents: answered when they are durable",
        HANDLERS_OWN,
        change=NO_CHANGE,
        about=_ABOUT,
        outcome="All events are durable",
        comes_as=_MODES,
        heads=EventHead,
        refused_by=(503, 507),
    )
    async def publish(self, topic: PlainName, asked: Asked) -> PublishResult:
        messages = await self._messages(topic, asked)
        if not messages:
            return _PUBLISHED
        self.check_batch(messages)
        self.mark(messages, asked.principal)
        self.published += len(messages)
        refusals = await self.sent(messages)
        if refusals is not None:
            raise refusal_of(refusals)
        if any(name == CONFIRM_HEADER for name, _ in asked.scope["headers"]):
            level = SINGLE if self._control is None else self._control.confirm_level(messages)
            asked.answer_headers[CONFIRM_HEADER.decode()] = level.text
        return _PUBLISHED

    @EVENTS.options(
        "",
        "validateWebHook",
        "Ask if events may be sent here (WebHook specification, 4)",
        OPEN,
        outcome="They may, at any rate",
        answer_headers={
            "Allow": "POST and OPTIONS",
            "WebHook-Allowed-Origin": "The origin that asked",
            "WebHook-Allowed-Rate": "`*`: any",
        },
        heads=HandshakeHead,
    )
    async def handshake(self, topic: PlainName, asked: Asked) -> Raw:
        answer = webhook.consent(asked.scope["headers"])
        return Raw(b"", "", {name.decode(): value.decode("latin-1") for name, value in answer})

    async def sent(self, messages: list[Message]) -> Refusals:
        """Send messages of one topic, each event once where its rule says so; return what is refused when the others
        are durable."""
        rule = self._rules.of(messages[0].topic)
        if rule is not None and rule.dedup_ms:
            return await self._deduplication.send(messages, rule.dedup_ms, self._sender.send_and_wait)
        return await self._sender.send_and_wait(messages)

    async def _messages(self, plain: str, asked: Asked) -> list[Message]:
        """The request's events as messages of a topic, which is created if needed."""
        namespace, headers = asked.namespace, asked.scope["headers"]
        topic = qualified(namespace, plain)
        is_known = self._store.topology.topic(topic) is not None
        if not is_known or is_reserved(plain):
            check_topic_name(plain)
        content_type, _, trace, _ = examined(headers)
        if self._store.messages.backlogged and self._store.condition.failure is None:
            await self._relief()
        messages = messages_of(headers, content_type, trace, await asked.read_body(), plain, self.max_batch_events)
        self.check(asked.principal, messages, namespace)
        if not is_known:
            known_namespace(self._store, namespace)
            await self._topology.ensure(topic)
        if namespace != DEFAULT_NAMESPACE:  # sub-topics keep the plain name
            for message in messages:
                message.topic = topic
        return messages

    async def _relief(self) -> None:
        """Wait until the store has caught up before reading the body."""
        relieved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._store.messages.when_relieved(lambda: None if relieved.done() else relieved.set_result(None))
        await relieved

    # -- also for publishes at once ------------------------------------------------------------------------------------

    def is_ready_for(self, topic: str) -> bool:
        """True if a topic takes events now and only has to store them."""
        if self._store.topology.topic(topic) is None or self._store.messages.backlogged:
            return False
        rule = self._rules.of(topic)
        return rule is None or not rule.dedup_ms

    def check(self, principal: Principal, messages: list[Message], namespace: str = DEFAULT_NAMESPACE) -> None:
        """Raise FORBIDDEN if any of the names may not be published to."""
        allows = self._security.allows
        names = {message.sub_topic for message in messages} if len(messages) != 1 else (messages[0].sub_topic,)
        for name in names:
            asked = name if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/{name}"
            if not allows(principal, Action.PUB, ResourceType.TOPIC, asked, PROTOCOL):
                raise rights_refusal(Action.PUB, ResourceType.TOPIC, asked)

    def check_batch(self, messages: list[Message]) -> None:
        """Raise if any message of a batch would be refused, as far as known here, so that nothing is stored."""
        topic = self._store.topology.topic(messages[0].topic) if len(messages) > 1 else None
        if topic is not None:
            check_batch(messages, topic, self._rules.of(topic.name), self._max_message_bytes, self._clock.now_ms())

    def mark(self, messages: list[Message], principal: Principal) -> None:
        """Note on messages of traced topics who published them."""
        if (provenance := self._sender.provenance).topics:
            provenance.mark(messages, PROTOCOL, principal.name or "a client without a name", principal)


def is_reserved(plain: str) -> bool:
    """True for names of internal topics, which clients do not publish to."""
    return NAMESPACE_SEPARATOR in plain or is_system_topic(plain) or is_subscription_feed(plain)
