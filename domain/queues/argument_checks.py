"""Checks of the arguments of a queue, with RabbitMQ's texts of refusal.  A check returns None, or the fault as Erlang
prints the term, which clients see: atoms bare, strings in quotes, `{value_negative,-1}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from entrepot.domain.field_value import text_of, type_name

Check = Callable[[object, Mapping[str, object]], str | None]
"""A check of a value, given the other arguments."""

MAX_PRIORITY: Final = 255
MAX_QUORUM_PRIORITY: Final = 31
"""Highest priority of a quorum queue, as RabbitMQ 4.3 has them."""
MAX_ROUTING_KEY_BYTES: Final = 255
QUEUE_MODES: Final = ("default", "lazy")
QUEUE_VERSIONS: Final = (1, 2)
LEADER_LOCATORS: Final = ("client-local", "balanced", "random", "least-leaders")
_AGE: Final = re.compile(r"([0-9]{1,18})([YMDhms])")
_SECOND_MS: Final = 1000
_DAY_MS: Final = 24 * 3600 * _SECOND_MS
_UNITS_MS: Final = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 3600 * _SECOND_MS,
    "m": 60 * _SECOND_MS,
    "s": _SECOND_MS,
}


def as_int(value: object) -> int:
    """Return a value that `integer` accepted."""
    assert isinstance(value, int)
    return value


def integer(value: object, _: Mapping[str, object]) -> str | None:
    name = type_name(value)
    return None if name in ("signedint", "long") else f'"expected integer, got {name}"'


def not_negative(value: object, others: Mapping[str, object]) -> str | None:
    fault = integer(value, others)
    if fault is None and as_int(value) < 0:
        return f"{{value_negative,{value}}}"
    return fault


def positive(value: object, others: Mapping[str, object]) -> str | None:
    if value == 0 and integer(value, others) is None:
        return "{value_zero,0}"
    return not_negative(value, others)


def priority(value: object, others: Mapping[str, object]) -> str | None:
    fault = not_negative(value, others)
    most = MAX_QUORUM_PRIORITY if text_of(others.get("x-queue-type")) == "quorum" else MAX_PRIORITY
    if fault is None and as_int(value) > most:
        return f"{{max_value_exceeded,{value}}}"
    return fault


def boolean(value: object, _: Mapping[str, object]) -> str | None:
    return None if isinstance(value, bool) else _unacceptable(value)


def text(value: object, _: Mapping[str, object]) -> str | None:
    return _unacceptable(value) if text_of(value) is None else None


def dead_letter_routing_key(value: object, others: Mapping[str, object]) -> str | None:
    fault = text(value, others)
    if fault is None and "x-dead-letter-exchange" not in others:
        return "routing_key_but_no_dlx_defined"
    if fault is None and len((text_of(value) or "").encode()) > MAX_ROUTING_KEY_BYTES:
        return f"{{max_bytes_exceeded,{MAX_ROUTING_KEY_BYTES}}}"
    return fault


def one_of(allowed: Iterable[str], fault: str) -> Check:
    """Return a check for one of these texts.  In the fault `{}` stands for the one given."""
    texts = tuple(allowed)

    def check(value: object, _: Mapping[str, object]) -> str | None:
        given = text_of(value)
        if given is None:
            return _unacceptable(value)
        return None if given in texts else fault.format(given)

    return check


def queue_version(value: object, others: Mapping[str, object]) -> str | None:
    fault = not_negative(value, others)
    if fault is None and as_int(value) not in QUEUE_VERSIONS:
        return f"\"unsupported queue version '{value}'\""
    return fault


def max_age(value: object, _: Mapping[str, object]) -> str | None:
    if text_of(value) is None:
        return _unacceptable(value)
    return "invalid_max_age" if max_age_ms(value) is None else None


def max_age_ms(value: object) -> int | None:
    """Return the milliseconds of an age such as `7D`, or None for an invalid one.  A month has 30 days, a year 365."""
    found = _AGE.fullmatch(text_of(value) or "")
    if found is None or int(found[1]) == 0:
        return None
    return int(found[1]) * _UNITS_MS[found[2]]


def _unacceptable(value: object) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"
