"""`POST /topics/{topic}:publish`, the hot route: at once where nothing is to be waited for but the store, so that a
request costs little more than its event; else plain ASGI.

The same below `/namespaces/{namespace}`, by ASGI alone.

Binary, structured and batched mode of the CloudEvents HTTP binding.  The answer comes when every event is durable.
"""

from __future__ import annotations

import asyncio
import sys
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from domain.access.model import NAMESPACE_LEVEL, Action, Principal, ResourceType
from domain.cluster import SINGLE, Clustered
from domain.errors import EntrepotError
from domain.message import Message
from domain.names import (
    DEFAULT_NAMESPACE,
    NAMESPACE_SEPARATOR,
    check_topic_name,
    is_subscription_feed,
    is_system_topic,
    qualified,
)
from gateway.http.access import PROTOCOL, HttpAccess
from gateway.http.asgi import Headers, Receive, Scope, Send, answer, decoded_name, read_body
from gateway.http.at_once import Client, OnPublished
from gateway.http.batch_refusals import check_batch, refusal_of
from gateway.http.context import HttpContext
from gateway.http.namespaced import known_namespace
from gateway.http.problems import (
    ProblemAnswer,
    answer_of,
    answer_of_status,
    log_refusal,
    send_problem,
    send_what_is_wrong,
)
from gateway.http.published_events import CONFIRM_HEADER, examined, messages_of
from gateway.messaging.send import Refusals
from gateway.security.security import refusal_of as rights_refusal
from protocols.cloudevents import webhook
from protocols.cloudevents.errors import CloudEventError

PREFIX: Final = b"/topics/"
SUFFIX: Final = b":publish"
NAMESPACE_PREFIX: Final = b"/namespaces/"
_PREFIX_LENGTH: Final = len(PREFIX)
_SUFFIX_LENGTH: Final = len(SUFFIX)
_CACHED_URLS: Final = 512

PUBLISHED: Final = b"{}"
"""Event Grid's PublishResult, which is empty."""
PUBLISHED_HEADERS: Final[Headers] = [(b"content-type", b"application/json")]


def topic_in(raw_path: bytes) -> bytes | None:
    """The raw topic of a publish path, or None if it is another path."""
    if not (raw_path.startswith(PREFIX) and raw_path.endswith(SUFFIX)):
        return None
    raw_topic = raw_path[_PREFIX_LENGTH:-_SUFFIX_LENGTH]
    return None if b"/" in raw_topic else raw_topic


def namespace_and_topic_in(raw_path: bytes) -> tuple[bytes, bytes] | None:
    """The raw namespace and topic of a publish path of a namespace, or None if it is another path."""
    if not raw_path.startswith(NAMESPACE_PREFIX):
        return None
    raw_namespace, slash, rest = raw_path[len(NAMESPACE_PREFIX) :].partition(b"/")
    raw_topic = topic_in(slash + rest)
    return None if raw_topic is None else (raw_namespace, raw_topic)


class PublishRoute:
    """Takes publish requests, whose path has been recognised already."""

    def __init__(self, context: HttpContext, access: HttpAccess) -> None:
        self._access = access
        self._store = context.store
        self._sender = context.sender
        self._topology = context.topology
        self._rules = context.event_rules
        self._deduplication = context.deduplication
        self._max_body_bytes = context.settings.http.max_body_bytes
        self._clock = context.clock
        is_elsewhere = isinstance(context.store, Clustered)  # its brokers know their limit
        self._operations = context.store.operations if isinstance(context.store, Clustered) else None
        self._max_message_bytes = sys.maxsize if is_elsewhere else context.settings.store.max_message_bytes
        self._max_batch_events = context.settings.http.max_batch_events

    def may_come(self, url: bytes, headers: Headers, client: Client) -> bool:
        """Whether a POST is taken at once as far as its head says; else it is refused, or waited for, by `__call__`."""
        try:
            return not examined(headers)[-1] and self._publisher(url, headers, client) is not None
        except Exception:  # noqa: BLE001 - it is met once more the other way, where it is logged and answered
            return False

    def at_once(self, url: bytes, headers: Headers, client: Client, body: bytes, on_published: OnPublished) -> bool:
        """Take a whole POST; says whether it was taken.

        It is not where something else than the store is to be waited for (who it is, room, a new topic, what is known
        of earlier events), or where a page may be asking; nothing is done then.
        """

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
            self._sender.send(messages, on_sent)
        except (EntrepotError, CloudEventError) as error:
            on_published(_told(url, error))
        except Exception:  # noqa: BLE001 - it is met once more the other way, where it is logged and answered
            return False
        return True

    def _publisher(self, url: bytes, headers: Headers, client: Client) -> tuple[Principal, str] | None:
        """Who publishes, and to which topic; None where something has to be waited for to say so, or to answer."""
        plain = _topic_at(url)
        if not plain or not self._is_ready_for(plain):
            return None
        principal = self._access.at_once({"client": client, "headers": headers})
        return None if principal is None else (principal, plain)

    def _is_ready_for(self, topic: str) -> bool:
        """Whether a topic takes events now, and only has to store them."""
        if self._store.topology.topic(topic) is None or self._store.messages.backlogged:
            return False
        rule = self._rules.of(topic)
        return rule is None or not rule.dedup_ms

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, raw_topic: bytes, raw_namespace: bytes | None = None
    ) -> None:
        """Answer one request.  Without a namespace it is for the default one."""
        try:
            if scope["method"] != "POST":
                await self._other_method(scope, send)
                return
            principal = self._access.at_once(scope) or await self._access.principal(scope)
            headers = scope["headers"]
            if raw_namespace is None:
                messages = await self._messages(principal, headers, receive, decoded_name(raw_topic))
            else:
                messages = await self._of_namespace(principal, headers, receive, raw_namespace, raw_topic)
            if messages:
                self._check_batch(messages)
                rule = self._rules.of(messages[0].topic)
                if rule is not None and rule.dedup_ms:
                    refusals = await self._deduplication.send(messages, rule.dedup_ms, self._sender.send_and_wait)
                else:
                    refusals = await self._sender.send_and_wait(messages)
                if refusals is not None:
                    raise refusal_of(refusals)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            await send_what_is_wrong(scope, send, error)
        else:
            await answer(send, 200, [*PUBLISHED_HEADERS, *self._level_asked(headers, messages)], PUBLISHED)

    def _level_asked(self, headers: Headers, messages: list[Message]) -> Headers:
        """The level of a confirm, for who asks for it."""
        if not messages or all(name != CONFIRM_HEADER for name, _ in headers):
            return []
        level = SINGLE if self._operations is None else self._operations.confirm_level(messages)
        return [(CONFIRM_HEADER, level.text.encode())]

    async def _of_namespace(
        self, principal: Principal, headers: Headers, receive: Receive, raw_namespace: bytes, raw_topic: bytes
    ) -> list[Message]:
        """The same for a topic of a namespace.  Sub-topics have its plain name."""
        plain, namespace = decoded_name(raw_topic), decoded_name(raw_namespace)
        topic = qualified(namespace, plain)
        messages = await self._messages(principal, headers, receive, plain, namespace)
        for message in messages:
            message.topic = topic
        return messages

    async def _messages(
        self, principal: Principal, headers: Headers, receive: Receive, plain: str, namespace: str = DEFAULT_NAMESPACE
    ) -> list[Message]:
        """The request's events as messages of a topic that is there, by its plain name."""
        topic = qualified(namespace, plain)
        is_known = self._store.topology.topic(topic) is not None
        if not is_known or _is_reserved(plain):
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
        return messages

    def _check(self, principal: Principal, messages: list[Message], namespace: str) -> None:
        """Raise FORBIDDEN where one of the names may not be published to; then nothing is."""
        allows = self._access.security.allows
        names = {message.sub_topic for message in messages} if len(messages) != 1 else (messages[0].sub_topic,)
        for name in names:
            asked = name if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/{name}"
            if not allows(principal, Action.PUB, ResourceType.TOPIC, asked, PROTOCOL):
                raise rights_refusal(Action.PUB, ResourceType.TOPIC, asked)

    def _check_batch(self, messages: list[Message]) -> None:
        """Raise where some of a batch would be refused for what is known here; then nothing is stored."""
        topic = self._store.topology.topic(messages[0].topic) if len(messages) > 1 else None
        if topic is not None:
            check_batch(messages, topic, self._rules.of(topic.name), self._max_message_bytes, self._clock.now_ms())

    async def _relief(self) -> None:
        """Wait until the store keeps up again, before more is read."""
        relieved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._store.messages.when_relieved(lambda: None if relieved.done() else relieved.set_result(None))
        await relieved

    async def _other_method(self, scope: Scope, send: Send) -> None:
        """OPTIONS is the handshake of the WebHook specification (4): who asks may send, at any rate."""
        if scope["method"] == "OPTIONS":
            await answer(send, 200, webhook.consent(scope["headers"]), b"")
            return
        detail = f"{scope['method']} is not a method of this path"
        problem = answer_of_status(405, detail)
        problem.headers["allow"] = "POST, OPTIONS"
        log_refusal(scope["method"], scope["path"], problem.status, detail)
        await send_problem(send, problem)


@lru_cache(_CACHED_URLS)
def _topic_at(url: bytes) -> str:
    """The topic of the default namespace that a request's target publishes to; empty where that has to be looked at."""
    raw_topic = topic_in(url)
    topic = "" if raw_topic is None or b"?" in raw_topic else decoded_name(raw_topic)
    return "" if _is_reserved(topic) else topic


def _is_reserved(plain: str) -> bool:
    """Whether a plain name is none that clients publish to, though there may be such a topic."""
    return NAMESPACE_SEPARATOR in plain or is_system_topic(plain) or is_subscription_feed(plain)


def _told(url: bytes, error: EntrepotError | CloudEventError) -> ProblemAnswer:
    """The answer for a refusal of a POST, which is logged."""
    problem = answer_of(error)
    log_refusal("POST", unquote(url.decode("latin-1")), problem.status, error.message)
    return problem
