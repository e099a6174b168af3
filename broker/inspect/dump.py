"""The records of a commit log as plain values, in order."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from entrepot.broker.consume.progress import Consumed, decode_ops
from entrepot.broker.inspect.log_files import Gap, LogFiles, Record
from entrepot.broker.inspect.row_words import epoch_words
from entrepot.broker.inspect.state_rows import name_of_row
from entrepot.broker.inspect.words import bytes_text, id_text, kind_name, time_text
from entrepot.broker.retention.restatement import decode_rows
from entrepot.broker.store.pending import decode_pending
from entrepot.broker.store.record import HEADER_SIZE, KEPT_KINDS, MESSAGE_KINDS, RecordKind
from entrepot.broker.store.record_trailer import NOWHERE, decode_move, read_origin
from entrepot.domain.message import as_texts
from entrepot.domain.printable import printable_json
from entrepot.domain.replication.epochs import read_epoch
from entrepot.protocols.wire.stored_record import InvalidRecordError, decode_message

MOST_OFFSETS = 1000
"""Most offsets of one consumption record that are shown."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The conditions on records; None means no limit. Offsets are of the commit log."""

    topic: str | None = None
    queue_id: int | None = None
    from_offset: int = 0
    to_offset: int | None = None
    kinds: frozenset[str] = frozenset()
    limit: int | None = None
    bodies: bool = False


def records(log: LogFiles, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """Yield the wanted records in order. A gap is `{"gap": reason, "offset": ..., "to": ...}`, unless it is reserved
    space, or where reading began."""
    left = wanted.limit
    for found in log.scan(wanted.from_offset):
        if left == 0:
            return
        if isinstance(found, Gap):
            if found.start != wanted.from_offset and found.used_end > found.start:
                yield {"gap": found.reason, "offset": found.start, "to": found.end}
            continue
        if wanted.to_offset is not None and found.header.commit_log_offset >= wanted.to_offset:
            return
        if wanted.kinds and kind_name(found.header.kind) not in wanted.kinds:
            continue
        described = describe(found, bodies=wanted.bodies)
        if _is_of(described, wanted):
            yield described
            left = None if left is None else left - 1


def _is_of(described: dict[str, Any], wanted: Wanted) -> bool:
    if wanted.topic is None and wanted.queue_id is None:
        return True
    places = [described, *described.get("further", ()), *described.get("ops", ())]
    return any(
        wanted.topic in (None, place.get("topic")) and wanted.queue_id in (None, place.get("queue")) for place in places
    )


def describe(found: Record, *, bodies: bool = False) -> dict[str, Any]:
    """Return one record as plain values."""
    header = found.header
    described: dict[str, Any] = {
        "offset": header.commit_log_offset,
        "kind": kind_name(header.kind),
        "time": time_text(header.store_time_ms),
        "size": header.length,
        "durableFloor": header.durable_floor,
    }
    payload = found.data[found.position + HEADER_SIZE : found.position + header.length]
    try:
        if header.kind in MESSAGE_KINDS or header.kind in KEPT_KINDS:
            described |= _message(found, bodies=bodies)
        elif header.kind == RecordKind.CONSUMPTION:
            described |= _consumption(payload)
        elif header.kind == RecordKind.METADATA:
            described["change"] = orjson.loads(payload)
            if "topic" in described["change"].get("op", ""):
                described["topic"] = described["change"].get("name")
        elif header.kind == RecordKind.KEY_VALUES:
            pairs = msgspec.msgpack.decode(payload, type=list[tuple[str, bytes | None]])
            described["changes"] = {key: None if value is None else bytes_text(value) for key, value in pairs}
        elif header.kind == RecordKind.PENDING:
            op, kept_offset, time_ms, checks = decode_pending(payload)
            described |= {"op": op.name.lower(), "keptOffset": kept_offset, "checks": checks}
            described |= {"at": time_text(time_ms)} if time_ms else {}
        elif header.kind == RecordKind.RESTATEMENT:
            described["rows"] = [name_of_row(key) for key, _ in decode_rows(payload)]
        elif header.kind == RecordKind.EPOCH:
            described |= epoch_words(read_epoch(payload, header.commit_log_offset))
    except (ValueError, LookupError, struct.error, msgspec.MsgspecError, InvalidRecordError) as error:
        described["unreadable"] = f"{type(error).__name__}: {error}"
    return described


def _message(found: Record, *, bodies: bool) -> dict[str, Any]:
    message = decode_message(found.data, found.position, found.header.commit_log_offset)
    told: dict[str, Any] = {"topic": message.topic, "queue": message.queue_id, "queueOffset": message.queue_offset}
    told |= {"id": id_text(message.message_id), "qos": message.qos, "bodyBytes": len(message.body)}
    optional = {
        "subTopic": message.sub_topic,
        "tag": message.tag,
        "keys": list(message.keys),
        "messageGroup": message.message_group,
        "born": time_text(message.born_time_ms) if message.born_time_ms else "",
        "further": [{"topic": t, "queue": q, "queueOffset": o} for t, q, o in message.further_places],
        "system": {name: _value(value) for name, value in as_texts(message.system).items()},
        "properties": [[name, _value(value)] for name, value in message.properties],
    }
    told |= {name: value for name, value in optional.items() if value}
    origin, move = read_origin(found.data, found.position), decode_move(found.data, found.position)
    if origin is not None:
        told["origin"] = origin.commit_log_offset
    if move is not None:
        told["from"] = {"group": move.group, "topic": move.topic, "queueOffset": move.queue_offset}
        told["from"] |= {"queue": None if move.queue_id == NOWHERE else move.queue_id}
        told["attempts"], told["visibleAt"] = move.attempts, time_text(move.visible_at_ms)
    if bodies:
        told["body"] = bytes_text(message.body)
    return told


def _value(value: str | bytes) -> str:
    return value if isinstance(value, str) else bytes_text(value)


def _consumption(payload: bytes) -> dict[str, Any]:
    """Return one operation as fields of the record; several, decided in one step, as a list of them."""
    told = [_operation(found) for found in decode_ops(payload)]
    return told[0] if len(told) == 1 else {"op": "tick", "ops": told}


def _operation(found: Consumed) -> dict[str, Any]:
    offsets, count = found.offsets, len(found.offsets)
    told: dict[str, Any] = {"op": found.op.name.lower(), "group": found.group}
    told |= {"topic": found.topic, "queue": found.queue_id, "count": count}
    if isinstance(offsets, range):
        told["offsets"] = f"{offsets[0]}" if count == 1 else f"{offsets[0]}..{offsets[-1]}" if count else ""
    else:
        told["offsets"] = ",".join(map(str, offsets[:MOST_OFFSETS])) + "..." * (count > MOST_OFFSETS)
    told |= {"until": time_text(found.deadline_ms)} if found.deadline_ms else {}
    told |= {"attemptId": found.attempt_id} if found.attempt_id else {}
    return told


def line(described: dict[str, Any]) -> str:
    """Return a record for people."""
    if "gap" in described:
        return f"{described['offset']:>12}  (no whole record up to {described['to']}: {described['gap']})"
    rest = dict(described)
    head = f"{rest.pop('offset'):>12}  {rest.pop('kind'):<11}  {rest.pop('time')}  {rest.pop('size'):>7}"
    rest.pop("durableFloor")
    if "queueOffset" in rest:
        head += f"  {rest.pop('topic')}/{rest.pop('queue')}/{rest.pop('queueOffset')}"
    elif "ops" in rest:
        head += f"  {rest.pop('op')}  " + "; ".join([_op_words(dict(op)) for op in rest.pop("ops")])
    elif "offsets" in rest:
        return f"{head}  {_op_words(rest)}"
    return "  ".join([head, *_fields(rest)])


def _op_words(op: dict[str, Any]) -> str:
    """Return an operation on a window for people."""
    head = f"{op.pop('op')} {op.pop('group')} {op.pop('topic')}/{op.pop('queue')} {op.pop('offsets')}"
    return "  ".join([head, *_fields(op)])


def _fields(rest: dict[str, Any]) -> list[str]:
    return [f"{name}={_word(value)}" for name, value in rest.items()]


def _word(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and " " not in value:
        return value
    return printable_json(orjson.dumps(value).decode())
