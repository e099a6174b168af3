"""`POST /topics/{topic}:publish`, the hot route: plain ASGI, so that a request costs little more than its event.

The same below `/namespaces/{namespace}`.

Binary, structured and batched mode of the CloudEvents HTTP binding.  The answer comes when every event is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from domain.access.model import NAMESPACE_LEVEL, Action, Principal, ResourceType
from domain.errors import EntrepotError
from domain.message import Message
from domain.names import (
    DEFAULT_NAMESPACE,
    NAMESPACE_SEPARATOR,
    check_topic_name,
    is_subscription_feed,
    is_system_topic,
    qualified,
    split_name,
)
from gateway.http.access import PROTOCOL, HttpAccess
from gateway.http.asgi import ClientGoneError, Headers, Receive, Scope, Send, answer, decoded_name, read_body
from gateway.http.context import HttpContext
from gateway.http.namespaced import known_namespace
from gateway.http.problems import answer_of, answer_of_status, log_fault, log_refusal, send_problem
from gateway.messaging.send import Refusals
from gateway.security.security import refusal_of
from protocols.cloudevents import http as binding
from protocols.cloudevents import webhook
from protocols.cloudevents.errors import CloudEventError, UnsupportedFormatError
from protocols.cloudevents.event import MAX_ATTRIBUTES, CloudEvent
from protocols.cloudevents.mapping import to_message

PREFIX: Final = b"/topics/"
SUFFIX: Final = b":publish"
NAMESPACE_PREFIX: Final = b"/namespaces/"
_PREFIX_LENGTH: Final = len(PREFIX)
_SUFFIX_LENGTH: Final = len(SUFFIX)

Trace = list[tuple[str, str]]
"""`traceparent` and `tracestate` of a request, as attributes; empty where it has none."""
TRACE_HEADERS: Final = frozenset({b"traceparent", b"tracestate"})
_EXAMINED: Final = TRACE_HEADERS | {b"content-type", b"content-length", b"content-encoding"}
MAX_TRACE_BYTES: Final = 512
NO_TRACE: Final[Trace] = []

_START: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"application/json"), (b"content-length", b"2")],
}
_BODY: Final = {"type": "http.response.body", "body": b"{}"}
"""Event Grid's PublishResult, which is empty."""


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
        self._max_batch_events = context.settings.http.max_batch_events

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
                rule = self._rules.of(messages[0].topic)
                if rule is not None and rule.dedup_ms:
                    refusals = await self._deduplication.send(messages, rule.dedup_ms, self._sender.send_and_wait)
                else:
                    refusals = await self._sender.send_and_wait(messages)
                if refusals is not None:
                    raise _refusal_of(refusals)
        except (EntrepotError, CloudEventError) as error:
            problem = answer_of(error)
            log_refusal(scope["method"], scope["path"], problem.status, error.message)
            await send_problem(send, problem)
        except ClientGoneError:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            await send_problem(send, log_fault(scope["method"], scope["path"], error))
        else:
            await send(_START)
            await send(_BODY)

    async def _of_namespace(
        self, principal: Principal, headers: Headers, receive: Receive, raw_namespace: bytes, raw_topic: bytes
    ) -> list[Message]:
        """The same for a topic of a namespace.  Sub-topics have its plain name."""
        plain = decoded_name(raw_topic)
        topic = qualified(known_namespace(self._store, decoded_name(raw_namespace)), plain)
        messages = await self._messages(principal, headers, receive, plain, topic)
        for message in messages:
            message.topic = topic
        return messages

    async def _messages(
        self, principal: Principal, headers: Headers, receive: Receive, plain: str, full_name: str | None = None
    ) -> list[Message]:
        """The request's events as messages of a topic that is there, by its plain name."""
        topic = full_name or plain
        is_known = self._store.topic(topic) is not None
        if not is_known or NAMESPACE_SEPARATOR in plain or is_system_topic(topic) or is_subscription_feed(topic):
            check_topic_name(plain)
        content_type, declared, trace = _examined(headers)
        if self._store.backlogged and self._store.failure is None:
            await self._relief()
        body = await read_body(receive, self._max_body_bytes, declared)
        mode = binding.content_mode(content_type)
        if mode is binding.ContentMode.BINARY:
            event = _from_binary(headers, content_type, body)
            messages = [to_message(_traced(event, trace) if trace else event, plain)]
        elif mode is binding.ContentMode.STRUCTURED:
            messages = [to_message(_traced(binding.from_structured(body, content_type), trace), plain)]
        else:
            messages = _batch(binding.from_batch(body, content_type, self._max_batch_events), plain, trace)
        self._check(principal, messages, split_name(topic)[0])
        if not is_known:
            await self._topology.ensure(topic)
        return messages

    def _check(self, principal: Principal, messages: list[Message], namespace: str) -> None:
        """Raise FORBIDDEN where one of the names may not be published to; then nothing is."""
        allows = self._access.security.allows
        for name in {message.sub_topic for message in messages}:
            asked = name if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/{name}"
            if not allows(principal, Action.PUB, ResourceType.TOPIC, asked, PROTOCOL):
                raise refusal_of(Action.PUB, ResourceType.TOPIC, asked)

    async def _relief(self) -> None:
        """Wait until the store keeps up again, before more is read."""
        relieved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._store.when_relieved(lambda: None if relieved.done() else relieved.set_result(None))
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


def _examined(headers: Headers) -> tuple[bytes, int | None, Trace]:
    """Content-Type (empty if none), Content-Length, trace.  Refuses a coded body, which nobody here would decode."""
    content_type, declared, trace = b"", None, NO_TRACE
    for name, value in headers:
        if name not in _EXAMINED:
            continue
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            declared = int(value) if value.isdigit() else None
        elif name in TRACE_HEADERS:
            if value.isascii() and len(value) <= MAX_TRACE_BYTES:
                trace = [*trace, (name.decode(), value.decode())]
        elif value.strip().lower() not in (b"", b"identity"):
            raise UnsupportedFormatError("bodies with a Content-Encoding are not taken: send the body as it is")
    return content_type, declared, trace


def _traced(event: CloudEvent, trace: Trace) -> CloudEvent:
    """The event with the request's trace context (distributed tracing extension), unless it has one of its own."""
    if trace and dict(trace).get("traceparent") and "traceparent" not in event.attributes:
        for name, value in trace:
            if value.isprintable() and len(event.attributes) < MAX_ATTRIBUTES:
                event.attributes.setdefault(name, value)
    return event


def _from_binary(headers: Headers, content_type: bytes, body: bytes) -> CloudEvent:
    try:
        return binding.from_binary(headers, body)
    except CloudEventError:
        if content_type and not any(name.startswith(binding.HEADER_PREFIX) for name, _ in headers):
            raise UnsupportedFormatError(
                f"there are no ce- headers, and the Content-Type is neither {binding.STRUCTURED_MEDIA_TYPE} "
                f"nor {binding.BATCH_MEDIA_TYPE}"
            ) from None
        raise


def _batch(events: Iterable[CloudEvent], topic: str, trace: Trace) -> list[Message]:
    messages: list[Message] = []
    try:
        for event in events:
            messages.append(to_message(_traced(event, trace), topic))  # noqa: PERF401 - the length tells which one was at fault
    except CloudEventError as error:
        raise CloudEventError(
            f"event {len(messages)} of the batch (counted from 0): {error.message}", error.attribute
        ) from None
    return messages


def _refusal_of(refusals: Refusals) -> EntrepotError:
    """What answers for a batch of which some were refused: the first refusal, with its place and how many more."""
    refused = [(index, refusal) for index, refusal in enumerate(refusals or ()) if refusal is not None]
    index, first = refused[0]
    if len(refusals or ()) == 1:
        return first
    return EntrepotError(
        first.code,
        f"event {index} of the batch (counted from 0) was refused: {first.message}; "
        f"{len(refused)} of {len(refusals or ())} were refused, the others are stored",
    )
