"""`POST /topics/{topic}:publish` and its form below `/namespaces/{namespace}`.

The fast path takes a publish that only waits for the store, so that a request costs little more than its event.
Others, and all of namespaces, go as hot routes.

Binary, structured and batched mode of the CloudEvents HTTP binding.  The answer comes when every event is durable.
"""

from __future__ import annotations

import asyncio
import re
import sys
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from fastapi import Request, Response

from entrepot.domain.access.model import NAMESPACE_LEVEL, Action, Principal, ResourceType
from entrepot.domain.cluster import SINGLE, Clustered, control_of
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.names import (
    DEFAULT_NAMESPACE,
    NAMESPACE_SEPARATOR,
    check_topic_name,
    is_subscription_feed,
    is_system_topic,
    qualified,
)
from entrepot.gateway.http.access import PROTOCOL, HttpAccess
from entrepot.gateway.http.asgi import Headers, Receive, decoded_name, name_in_path, read_body
from entrepot.gateway.http.at_once import Client, OnPublished
from entrepot.gateway.http.batch_refusals import check_batch, refusal_of
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import ProblemAnswer, answer_of, log_refusal
from entrepot.gateway.http.published_events import CONFIRM_HEADER, examined, messages_of
from entrepot.gateway.http.request_times import PUBLISH
from entrepot.gateway.http.rights import IN_THE_BODY, Open
from entrepot.gateway.http.routes import Hot, Routes
from entrepot.gateway.messaging.send import Refusals
from entrepot.gateway.operations.asked import known_namespace
from entrepot.gateway.operations.change_names import NO_CHANGE
from entrepot.gateway.security.security import refusal_of as rights_refusal
from entrepot.protocols.cloudevents import webhook
from entrepot.protocols.cloudevents.errors import CloudEventError

PREFIX: Final = b"/topics/"
SUFFIX: Final = b":publish"
_PATH: Final = re.compile(rb"(?P<namespace>/namespaces/[^/]+)?/topics/(?P<topic>[^/]*):publish")
_CACHED_URLS: Final = 512

PUBLISHED: Final = b"{}"
"""Event Grid's PublishResult, which is empty."""
PUBLISHED_HEADERS: Final[Headers] = [(b"content-type", b"application/json")]


def is_publish(raw_path: bytes) -> bool:
    """True for a publish path of any namespace."""
    return raw_path.endswith(SUFFIX) and _PATH.fullmatch(raw_path) is not None


def publish_routes(publishing: Publishing) -> Routes:
    """The routes of publishing and of the webhook handshake."""
    routes, hot = Routes(["events"]), Hot(lambda query: {}, takes_any_name=True)
    of_the_document: dict[str, Any] = {"include_in_schema": False}  # described by hand in the document

    @routes.post(PUBLISH, IN_THE_BODY, hot=hot, change=NO_CHANGE, **of_the_document)
    async def publish(request: Request, topic: str) -> Response:
        return await publishing.publish(request, topic)

    @routes.add("OPTIONS", PUBLISH, Open(None), hot=hot, **of_the_document)
    async def handshake(request: Request, topic: str) -> Response:
        """Allow anybody to send, at any rate (WebHook specification 4)."""
        return _with_headers(b"", webhook.consent(request.scope["headers"]))

    return routes


class Publishing:
    """Publishing over HTTP.  Implements `PublishAtOnce`."""

    def __init__(self, context: HttpContext, access: HttpAccess) -> None:
        self._access = access
        self._store = context.store
        self._sender = context.sender
        self._topology = context.topology
        self._rules = context.event_rules
        self._deduplication = context.deduplication
        self._max_body_bytes = context.settings.http.max_body_bytes
        self._clock = context.clock
        self.published = 0
        """Events taken since the start, refused ones included."""
        is_elsewhere = isinstance(context.store, Clustered)  # its brokers know their limit
        self._operations = control_of(context.store)
        self._max_message_bytes = sys.maxsize if is_elsewhere else context.settings.store.max_message_bytes
        self._max_batch_events = context.settings.http.max_batch_events

    def may_come(self, url: bytes, headers: Headers, client: Client) -> bool:
        """True if, judging by its head, a POST can be taken at once; else `publish` refuses or awaits it."""
        try:
            return not examined(headers)[-1] and self._publisher(url, headers, client) is not None
        except Exception:  # noqa: BLE001 - it recurs in `publish`, where it is logged and answered
            return False

    def at_once(self, url: bytes, headers: Headers, client: Client, body: bytes, on_published: OnPublished) -> bool:
        """Take a whole POST; True if it was taken.  False, with nothing done, where it must wait for more than the
        store (authentication, room, a new topic, deduplication), or where a page may have sent it."""

        def on_sent(failure: EntrepotError | None, refusals: Refusals) -> None:
            refusal = failure if refusals is None else refusal_of(refusals)
            on_published(None if refusal is None else _told(url, refusal))

        try:
            publisher = self._publisher(url, headers, client)
            if publisher is None:
                return False
            principal, plain = publisher
            content_type, _, trace, may_be_page = examined(headers)
            if may_be_page:
                return False
            messages = messages_of(headers, content_type, trace, body, plain, self._max_batch_events)
            self._check(principal, messages, DEFAULT_NAMESPACE)
            self._check_batch(messages)
            self._mark(messages, principal)
            self._sender.send(messages, on_sent)
            self.published += len(messages)
        except (EntrepotError, CloudEventError) as error:
            on_published(_told(url, error))
        except Exception:  # noqa: BLE001 - it recurs in `publish`, where it is logged and answered
            return False
        return True

    def _mark(self, messages: list[Message], principal: Principal) -> None:
        if (provenance := self._sender.provenance).topics:
            provenance.mark(messages, PROTOCOL, principal.name or "a client without a name", principal)

    def _publisher(self, url: bytes, headers: Headers, client: Client) -> tuple[Principal, str] | None:
        """The publisher and the topic; None where either, or the answer, needs waiting."""
        plain = _topic_at(url)
        if not plain or not self._is_ready_for(plain):
            return None
        principal = self._access.at_once({"client": client, "headers": headers})
        return None if principal is None else (principal, plain)

    def _is_ready_for(self, topic: str) -> bool:
        """True if a topic takes events now and only has to store them."""
        if self._store.topology.topic(topic) is None or self._store.messages.backlogged:
            return False
        rule = self._rules.of(topic)
        return rule is None or not rule.dedup_ms

    async def publish(self, request: Request, plain: str) -> Response:
        """Answer one request.  Raises its refusal."""
        scope, principal = request.scope, request.state.principal
        headers, named = scope["headers"], request.path_params.get("namespace")
        namespace = DEFAULT_NAMESPACE if named is None else name_in_path(named)
        messages = await self._messages(principal, headers, request.receive, name_in_path(plain), namespace)
        if not messages:
            return _PUBLISHED
        self._check_batch(messages)
        self._mark(messages, principal)
        self.published += len(messages)
        rule = self._rules.of(messages[0].topic)
        if rule is not None and rule.dedup_ms:
            refusals = await self._deduplication.send(messages, rule.dedup_ms, self._sender.send_and_wait)
        else:
            refusals = await self._sender.send_and_wait(messages)
        if refusals is not None:
            raise refusal_of(refusals)
        if all(name != CONFIRM_HEADER for name, _ in headers):
            return _PUBLISHED
        level = SINGLE if self._operations is None else self._operations.confirm_level(messages)
        return _with_headers(PUBLISHED, [*PUBLISHED_HEADERS, (CONFIRM_HEADER, level.text.encode())])

    async def _messages(
        self, principal: Principal, headers: Headers, receive: Receive, plain: str, namespace: str = DEFAULT_NAMESPACE
    ) -> list[Message]:
        """The request's events as messages of a topic, which is created if needed."""
        topic = qualified(namespace, plain)
        is_known = self._store.topology.topic(topic) is not None
        if not is_known or is_reserved(plain):
            check_topic_name(plain)
        content_type, declared, trace, _ = examined(headers)
        if self._store.messages.backlogged and self._store.condition.failure is None:
            await self._relief()
        body = await read_body(receive, self._max_body_bytes, declared)
        messages = messages_of(headers, content_type, trace, body, plain, self._max_batch_events)
        self._check(principal, messages, namespace)
        if not is_known:
            known_namespace(self._store, namespace)
            await self._topology.ensure(topic)
        if namespace != DEFAULT_NAMESPACE:  # sub-topics keep the plain name
            for message in messages:
                message.topic = topic
        return messages

    def _check(self, principal: Principal, messages: list[Message], namespace: str) -> None:
        """Raise FORBIDDEN if any of the names may not be published to."""
        allows = self._access.security.allows
        names = {message.sub_topic for message in messages} if len(messages) != 1 else (messages[0].sub_topic,)
        for name in names:
            asked = name if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/{name}"
            if not allows(principal, Action.PUB, ResourceType.TOPIC, asked, PROTOCOL):
                raise rights_refusal(Action.PUB, ResourceType.TOPIC, asked)

    def _check_batch(self, messages: list[Message]) -> None:
        """Raise if any message of a batch would be refused, as far as known here, so that nothing is stored."""
        topic = self._store.topology.topic(messages[0].topic) if len(messages) > 1 else None
        if topic is not None:
            check_batch(messages, topic, self._rules.of(topic.name), self._max_message_bytes, self._clock.now_ms())

    async def _relief(self) -> None:
        """Wait until the store has caught up before reading the body."""
        relieved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._store.messages.when_relieved(lambda: None if relieved.done() else relieved.set_result(None))
        await relieved


def _with_headers(body: bytes, headers: Headers) -> Response:
    return Response(body, headers={name.decode(): value.decode("latin-1") for name, value in headers})


_PUBLISHED: Final = _with_headers(PUBLISHED, PUBLISHED_HEADERS)


@lru_cache(_CACHED_URLS)
def _topic_at(url: bytes) -> str:
    """The topic in a publish URL of the default namespace; empty where the fast path does not apply."""
    found = _PATH.fullmatch(url)
    topic = "" if found is None or found["namespace"] or b"?" in found["topic"] else decoded_name(found["topic"])
    return "" if is_reserved(topic) else topic


def is_reserved(plain: str) -> bool:
    """True for names of internal topics, which clients do not publish to."""
    return NAMESPACE_SEPARATOR in plain or is_system_topic(plain) or is_subscription_feed(plain)


def _told(url: bytes, error: EntrepotError | CloudEventError) -> ProblemAnswer:
    problem = answer_of(error)
    log_refusal("POST", unquote(url.decode("latin-1")), problem.status, error.message)
    return problem
