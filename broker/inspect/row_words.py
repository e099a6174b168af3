"""The rows of the state file as plain values."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import orjson

from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.inspect.state_rows import ROW_KINDS, name_of_row
from entrepot.broker.inspect.words import bytes_text, time_text
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.index_file import IndexFile
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.state_file import META_KEY, read_meta
from entrepot.domain.errors import CorruptedError
from entrepot.domain.replication.epochs import EpochStart, decode_starts

_TIMER = struct.Struct(">QQI")


def describe_row(files: OpenFiles, key: bytes, value: bytes) -> dict[str, Any]:
    """Return the row's kind, key and fields, or a note that it cannot be read. `files` is not read from."""
    kind = chr(key[0]) if key else ""
    found: dict[str, Any] = {"kind": ROW_KINDS.get(kind, kind), "key": name_of_row(key), "bytes": len(value)}
    try:
        return found | _fields(files, kind, key, value)
    except (ValueError, LookupError, TypeError, struct.error, msgspec.MsgspecError, CorruptedError) as error:
        return found | {"unreadable": str(error)}


def epoch_words(start: EpochStart) -> dict[str, Any]:
    """Return a start of a master as plain values."""
    named = {"epoch": start.epoch, "run": start.run, "start": start.start, "replica": start.replica}
    return named | ({"isUnclean": True} if start.is_unclean else {})


def _fields(files: OpenFiles, kind: str, key: bytes, value: bytes) -> dict[str, Any]:
    if kind == "m":
        position, end, epoch = read_meta({META_KEY: value}) or (None, None, None)
        return {"position": position, "end": end, "recoveryEpoch": epoch}
    if kind in ("t", "g", "n"):
        definition, since, latest_since, as_of, *origin = orjson.loads(value)
        told = {"definition": definition, "since": since, "latestSince": latest_since, "asOf": as_of}
        return told | ({"origin": origin[0]} if origin else {})
    if kind == "q":
        return _queue(files, value)
    if kind == "w":
        return _window(value)
    if kind == "k":
        return {"version": int.from_bytes(value[:8], "big"), "value": bytes_text(value[8:])}
    if kind == "s":
        return {"name": value.decode()}
    if kind == "b":
        return {"offset": int.from_bytes(value, "big")}
    if kind == "e":
        return {"starts": [epoch_words(start) for start in decode_starts(value)]}
    if kind == "d":
        timers = [
            {"deliverAt": time_text(time_ms), "offset": offset} for time_ms, offset, _ in _TIMER.iter_unpack(value[8:])
        ]
        return {"asOf": int.from_bytes(value[:8], "big"), "timers": timers}
    if kind == "x":
        topic, transaction_id, due_ms, checks = msgspec.msgpack.decode(value)
        return {"topic": topic, "transactionId": transaction_id, "due": time_text(due_ms), "checks": checks}
    return _index(files, key[1:].decode(), value)


def _queue(files: OpenFiles, value: bytes) -> dict[str, Any]:
    queue = ConsumeQueue(files, "", 0)
    queue.restore(value)
    return {
        "asOf": queue.as_of,
        "since": queue.since,
        "minOffset": queue.min_offset,
        "maxOffset": queue.max_offset,
        "inFiles": queue.flushed_entries,
        "inRow": queue.max_offset - queue.flushed_entries,
    }


def _window(value: bytes) -> dict[str, Any]:
    window = ConsumeWindow.restore(value)
    pending = [offset for offset in range(window.base, window.frontier) if not window.is_settled(offset)]
    return {
        "asOf": window.as_of,
        "since": window.since,
        "generation": window.generation,
        "base": window.base,
        "frontier": window.frontier,
        "deliveredEnd": window.delivered_end,
        "unsettled": len(pending),
        "firstUnsettled": [
            {"offset": o, "attempts": window.attempt(o), "until": time_text(window.deadline(o))} for o in pending[:10]
        ],
        "attemptIds": len(window.tries),
    }


def _index(files: OpenFiles, name: str, value: bytes) -> dict[str, Any]:
    if name == "head":
        version, until, min_offset, number = struct.unpack(">IQQQ", value)
        return {"version": version, "indexedUntil": until, "minOffset": min_offset, "nextNumber": number}
    file = IndexFile.from_row(files, name, value)
    return {
        "entries": file.count,
        "capacity": file.layout.entries,
        "slots": file.layout.slots,
        "firstOffset": file.first_offset,
        "lastOffset": file.last_offset,
        "from": time_text(file.min_time_ms),
        "to": time_text(file.max_time_ms),
    }
