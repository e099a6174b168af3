"""Times, ids, bytes and kinds of records in words for people."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from entrepot.broker.store.record import RecordKind

_KIND_NAMES = {kind.value: kind.name.lower().replace("_", "-") for kind in RecordKind}


def kind_name(kind: int) -> str:
    """Return a kind's name, such as `dead-letter`."""
    return _KIND_NAMES.get(kind, f"kind-{kind}")


def kind_names() -> list[str]:
    return list(_KIND_NAMES.values())


def time_text(time_ms: int) -> str:
    """Return RFC 3339 in UTC, to the millisecond; the number itself where that is not a date."""
    try:
        moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def id_text(message_id: bytes) -> str:
    """Return an id as gateways write it: hexadecimal."""
    return message_id.hex().upper()


def bytes_text(data: bytes) -> str:
    """Return text where it is text, else `base64:` and its encoding."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(data).decode()
    return text if text.isprintable() or text.isspace() else "base64:" + base64.b64encode(data).decode()
