"""The events of a publish request as messages, in binary, structured or batched mode."""

from __future__ import annotations

from typing import Final

from entrepot.domain.message import Message
from entrepot.gateway.transport.web_origin import PAGE_HEADERS
from entrepot.protocols.cloudevents import http as binding
from entrepot.protocols.cloudevents.batch import each_of
from entrepot.protocols.cloudevents.errors import CloudEventError, UnsupportedFormatError
from entrepot.protocols.cloudevents.event import MAX_ATTRIBUTES, CloudEvent
from entrepot.protocols.cloudevents.mapping import to_message

Headers = list[tuple[bytes, bytes]]
Trace = list[tuple[str, str]]
"""`traceparent` and `tracestate` of a request as attributes; empty where there are none."""
TRACE_HEADERS: Final = frozenset({b"traceparent", b"tracestate"})
CONFIRM_HEADER: Final = b"entrepot-confirm"
"""In a request: asks for its confirm level.  In an answer: that level."""
_EXAMINED: Final = (
    TRACE_HEADERS | PAGE_HEADERS | {b"content-type", b"content-length", b"content-encoding", CONFIRM_HEADER}
)
MAX_TRACE_BYTES: Final = 512
NO_TRACE: Final[Trace] = []


def examined(headers: Headers) -> tuple[bytes, int | None, Trace, bool]:
    """Return Content-Type (empty if none), Content-Length, trace, and True where the fast path does not apply.  That is
    where a page may have sent the request, or it asks for its confirm level.  Raises for an encoded body, which nobody
    here would decode."""
    content_type, declared, trace, may_be_page = b"", None, NO_TRACE, False
    for name, value in headers:
        if name not in _EXAMINED:
            continue
        if name == b"content-type":
            content_type = value
        elif name == b"content-length":
            declared = int(value) if value.isdigit() else None
        elif name in PAGE_HEADERS or name == CONFIRM_HEADER:
            may_be_page = True
        elif name in TRACE_HEADERS:
            if value.isascii() and len(value) <= MAX_TRACE_BYTES:
                trace = [*trace, (name.decode(), value.decode())]
        elif value.strip().lower() not in (b"", b"identity"):
            raise UnsupportedFormatError("bodies with a Content-Encoding are not taken: send the body as it is")
    return content_type, declared, trace, may_be_page


def messages_of(
    headers: Headers, content_type: bytes, trace: Trace, body: bytes, plain: str, max_events: int
) -> list[Message]:
    """The request's events as messages of a topic, by its plain name.  Raises CloudEventError."""
    mode = binding.content_mode(content_type)
    if mode is binding.ContentMode.BINARY:
        event = _from_binary(headers, content_type, body)
        return [to_message(_traced(event, trace) if trace else event, plain)]
    if mode is binding.ContentMode.STRUCTURED:
        return [to_message(_traced(binding.from_structured(body, content_type), trace), plain)]
    events = binding.from_batch(body, content_type, max_events)
    return each_of(events, lambda event: to_message(_traced(event, trace), plain))


def _traced(event: CloudEvent, trace: Trace) -> CloudEvent:
    """The event with the request's trace context (distributed tracing extension), unless it has its own."""
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
