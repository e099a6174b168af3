"""Frames of a consumer's WebSocket: CloudEvents in the JSON format, one in each text frame, in both directions.

(CloudEvents WebSockets binding, sub-protocol `cloudevents.json`.)  The server sends the group's events, with the
extensions `locktoken` and `deliverycount`.  The client sends events whose type is one of `CONTROL_TYPES`.  Each is
answered with one of type SETTLED or PROBLEM, whose `subject` is its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
import orjson

from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.value_space import OnUnsaid, nobody
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.protocols.cloudevents.errors import CloudEventError
from entrepot.protocols.cloudevents.event import SPEC_VERSION, CloudEvent, ExtensionType
from entrepot.protocols.cloudevents.json_format import decode_event, encode_event
from entrepot.protocols.cloudevents.mapping import to_event

SUBPROTOCOL: Final = "cloudevents.json"
ACKNOWLEDGE: Final = "dev.entrepot.acknowledge"
RELEASE: Final = "dev.entrepot.release"
REJECT: Final = "dev.entrepot.reject"
RENEW: Final = "dev.entrepot.renew"
CREDIT: Final = "dev.entrepot.credit"
CONTROL_TYPES: Final = frozenset({ACKNOWLEDGE, RELEASE, REJECT, RENEW, CREDIT})
SETTLED: Final = "dev.entrepot.settled"
PROBLEM: Final = "dev.entrepot.problem"
MAX_CREDIT: Final = 1000
MAX_TOKENS: Final = 1000
LONGEST_DELAY_SECONDS: Final = 1_000_000_000


class Settling(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Data of ACKNOWLEDGE, RELEASE, REJECT and RENEW."""

    lock_tokens: Annotated[list[str], msgspec.Meta(min_length=1, max_length=MAX_TOKENS)]
    release_delay_in_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_DELAY_SECONDS)] = 0


class Credit(msgspec.Struct, forbid_unknown_fields=True):
    """Data of CREDIT: maximum number of unsettled events from now on."""

    credit: Annotated[int, msgspec.Meta(ge=0, le=MAX_CREDIT)]


class Control(msgspec.Struct):
    """A control event of the client."""

    id: str
    type: str
    data: Settling | Credit


def decode_control(text: bytes) -> Control:
    """Decode a frame.  Raises CloudEventError."""
    event = decode_event(text)
    if event.type not in CONTROL_TYPES:
        raise CloudEventError(f"{event.type[:80]!r} is none of {', '.join(sorted(CONTROL_TYPES))}", "type")
    kind: Any = Credit if event.type == CREDIT else Settling
    try:
        data = msgspec.json.decode(event.data or b"null", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CloudEventError(f"the data of {event.type!r} is not what is expected: {error}") from None
    return Control(event.id, event.type, data)


def encode_delivery(ticket: Ticket, default_type: str, unsaid: OnUnsaid = nobody) -> str:
    """Encode one event of the group."""
    event = to_event(ticket.message, split_name(ticket.message.topic)[0], default_type, unsaid)
    event.attributes["locktoken"] = ticket.receipt_handle
    event.attributes["deliverycount"] = str(ticket.attempt)
    event.typed_extensions = {**event.typed_extensions, "deliverycount": ExtensionType.INTEGER}
    return encode_event(event).decode()


def encode_settled(
    answered: str, source: str, number: int, tokens: Sequence[str], outcomes: Sequence[EntrepotError | None]
) -> str:
    """Encode the outcome of each token."""
    failed = [
        {"lockToken": token, "error": {"code": refusal.code.name, "message": refusal.message}}
        for token, refusal in zip(tokens, outcomes, strict=True)
        if refusal is not None
    ]
    succeeded = [token for token, refusal in zip(tokens, outcomes, strict=True) if refusal is None]
    data = {"succeededLockTokens": succeeded, "failedLockTokens": failed}
    return _encode(SETTLED, answered, source, number, orjson.dumps(data))


def encode_problem(answered: str, source: str, number: int, problem: bytes) -> str:
    """Encode a refusal as a problem detail (RFC 9457)."""
    return _encode(PROBLEM, answered, source, number, problem)


def _encode(kind: str, answered: str, source: str, number: int, data: bytes) -> str:
    attributes = {"specversion": SPEC_VERSION, "id": str(number), "source": source, "type": kind}
    if answered:
        attributes["subject"] = answered
    attributes["datacontenttype"] = "application/json"
    return encode_event(CloudEvent(attributes, data)).decode()
