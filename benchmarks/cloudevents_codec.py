"""Microseconds per event of the CloudEvents codec: `python -m benchmarks.cloudevents_codec`.

A 223-byte JSON data, four to seven attributes and the headers a client usually sends; best of five.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable

from entrepot.domain.message import StoredMessage
from entrepot.protocols.cloudevents import http
from entrepot.protocols.cloudevents.mapping import to_event, to_message

_BATCH = 100
_DATA = b'{"device":"line1","readings":[21.5,21.75,22],"text":"' + b"x" * 168 + b'"}'
_HEADERS = [
    (b"host", b"localhost:8080"),
    (b"user-agent", b"benchmark/1.0"),
    (b"accept", b"*/*"),
    (b"content-length", b"223"),
    (b"content-type", b"application/json"),
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"A234-1234-1234"),
    (b"ce-source", b"/mycontext/subcontext"),
    (b"ce-type", b"com.example.someevent"),
    (b"ce-time", b"2026-04-05T17:31:00.123Z"),
    (b"ce-subject", b"line1/temp"),
]


def _spaced(compact: bytes) -> bytes:
    """The event as `json.dumps` writes it by default: a space after each colon and comma outside the data."""
    return compact.replace(b'":"', b'": "').replace(b'","', b'", "')


def _microseconds(call: Callable[[], object], events: int = 1) -> float:
    repeat = 20_000 // events
    return min(timeit.repeat(call, number=repeat, repeat=5)) / repeat / events * 1e6


def main() -> None:
    event = http.from_binary(_HEADERS, _DATA)
    structured, batch = http.to_structured(event)[1], http.to_batch([event] * _BATCH)[1]
    spaced = _spaced(structured)
    message = to_message(event, "factory")
    fields = {name: getattr(message, name) for name in message.__dataclass_fields__}
    stored = StoredMessage(**fields)
    other = StoredMessage("factory", _DATA, "factory/line1", message_id=bytes(16), born_time_ms=1_775_410_260_123)
    rows = [
        ("binary read", _microseconds(lambda: http.from_binary(_HEADERS, _DATA))),
        ("binary write", _microseconds(lambda: http.to_binary(event))),
        ("structured read", _microseconds(lambda: http.from_structured(structured))),
        ("structured read, spaced", _microseconds(lambda: http.from_structured(spaced))),
        ("structured write", _microseconds(lambda: http.to_structured(event))),
        (f"batch of {_BATCH} read", _microseconds(lambda: http.from_batch(batch), _BATCH)),
        (f"batch of {_BATCH} write", _microseconds(lambda: http.to_batch([event] * _BATCH), _BATCH)),
        ("event to message", _microseconds(lambda: to_message(event, "factory"))),
        ("message to event", _microseconds(lambda: to_event(stored))),
        ("other door's message to event", _microseconds(lambda: to_event(other))),
    ]
    for name, microseconds in rows:
        sys.stdout.write(f"{name:32}{microseconds:6.2f} us\n")


if __name__ == "__main__":
    main()
