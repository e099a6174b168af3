"""User properties of the wire, with our facts that have no field of their own.

The protocol's user properties are a map of text: no order, no repeated name, no bytes, no blank name, no control
characters, and RocketMQ's own names refused.  Ours are a list that may have all of these.

    <name>                      a user property as it is, where the map can carry it: filters see it
    entrepot_<fact>             a well-known property of ours (`SystemProperty`), or one of `mapping`'s facts
    entrepot_more               JSON {fact: text or [base64]}: the facts that are not plain text
    entrepot_properties         JSON list in the order of the user properties, only if the map is not enough:
                                "name" (its value is in the map), [name, text] or [name, base64, 1]

A message of another producer has none of these, and its user properties come in the order of their names.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import orjson

from entrepot.domain.message import Properties, PropertyValue

PREFIX: Final = "entrepot_"
KEPT_PREFIX: Final = "entrepot_fact_"
"""Prefix of user properties that keep a fact a producer may not set: it goes back unchanged."""
MORE: Final = "more"
ORDER: Final = "properties"
NOT_FACTS: Final = frozenset({MORE, ORDER})

_REFUSED = """
KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
ORIGIN_MESSAGE_ID ORIGIN_GROUP TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME TRAN_PREPARED_QUEUE_OFFSET INSTANCE_ID CORRELATION_ID
REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME DUP_INFO
TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELAY_LEVEL
TIMER_DELIVER_MS TIMER_DEL_UNIQKEY INNER_MULTI_QUEUE_OFFSET DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID
BORN_TIMESTAMP _SYS_MSG_PRIORITY_ __BORNHOST __CRC32# __LITE_TOPIC
"""
_STEERING = """
TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS TIMER_DEL_FLAG INNER_BASE INNER_MULTI_DISPATCH INNER_NUM CRC32
"""
SHARDING_KEY: Final = "__SHARDINGKEY"
"""RocketMQ's name of the message group, among the properties of its records."""
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
"""RocketMQ's name of the field `trace_context`, which a proxy shows as a user property, too."""
_ADDED: Final = frozenset({SHARDING_KEY, "__BORNHOST", "__CRC32#", "__LITE_TOPIC", "__transactionId__"})
_TRANSIENT: Final = "__RMQ."
_NOT_CARRIED: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
REFUSED: Final = frozenset(_REFUSED.split())
"""RocketMQ's own names: those that its proxy 5.5.0 refuses from producers (`MessageConst.STRING_HASH_SET`)."""
RESERVED: Final = REFUSED | frozenset(_STEERING.split())
"""Names that no property has in a record of a cluster: also those by which a producer steers a broker."""


def is_added(name: str) -> bool:
    """True for a name that a cluster gives to what it adds to a message itself."""
    return name in _ADDED or name.startswith(_TRANSIENT)


def is_plain(text: str) -> bool:
    """True if RocketMQ's records can carry a text: something visible, no control characters, all of it UTF-8."""
    return not _NOT_CARRIED.search(text) and bool(text.strip())


def is_value(text: str) -> bool:
    """True if the wire's map can carry a text as a value: blank ones, too."""
    return not _NOT_CARRIED.search(text)


def carry(
    properties: Properties,
    facts: Mapping[str, PropertyValue],
    reserved: Collection[str] = RESERVED,
    prefixes: tuple[str, ...] = (PREFIX, "__"),
    is_carried: Callable[[str], bool] = is_plain,
) -> dict[str, str]:
    """Return the map of user properties and facts.  `reserved`, `prefixes`: names, and beginnings of names, that no
    user property may have there; `is_carried`: which values one may have."""
    carried = {
        name: value
        for name, value in properties
        if isinstance(value, str)
        and name not in reserved
        and not name.startswith(prefixes)
        and is_plain(name)
        and is_carried(value)
    }
    if tuple(sorted(carried.items())) != properties:
        carried = {name: value for name, value in carried.items() if _count(properties, name) == 1}
        order = [name if name in carried else _listed(name, value) for name, value in properties]
        carried[PREFIX + ORDER] = json.dumps(order, separators=(",", ":"))
    more: dict[str, Any] = {}
    for fact, value in facts.items():
        if isinstance(value, str) and is_plain(value) and is_plain(fact):
            carried[PREFIX + fact] = value
        else:
            more[fact] = value if isinstance(value, str) else [b64encode(value).decode("ascii")]
    if more:
        carried[PREFIX + MORE] = json.dumps(more, separators=(",", ":"))
    return carried


def bring_back(carried: Mapping[str, str]) -> tuple[Properties, dict[str, PropertyValue]]:
    """Return the user properties and the facts of a map.  Left out: invalid facts, and what a cluster adds under a name
    of its own, such as `__SHARDINGKEY`."""
    own = {name[len(PREFIX) :]: value for name, value in carried.items() if name.startswith(PREFIX)}
    plain = {name: value for name, value in carried.items() if not (name.startswith(PREFIX) or is_added(name))}
    facts: dict[str, PropertyValue] = {name: value for name, value in own.items() if name not in NOT_FACTS}
    more = _parsed(own.get(MORE))
    if isinstance(more, dict):
        for fact, value in more.items():
            if isinstance(value, str):
                facts[fact] = value
            elif isinstance(value, list) and len(value) == 1 and (raw := _bytes(value[0])) is not None:
                facts[fact] = raw
    order = _parsed(own.get(ORDER))
    if not isinstance(order, list):
        return tuple(sorted(plain.items())), facts
    return tuple(found for item in order if (found := _property(item, plain)) is not None), facts


def _count(properties: Properties, name: str) -> int:
    return sum(other == name for other, _ in properties)


def _listed(name: str, value: PropertyValue) -> list[str | int]:
    return [name, value] if isinstance(value, str) else [name, b64encode(value).decode("ascii"), 1]


def _property(item: object, plain: Mapping[str, str]) -> tuple[str, PropertyValue] | None:
    match item:
        case str(name) if name in plain:
            return name, plain[name]
        case [str(name), str(value)]:
            return name, value
        case [str(name), text, 1]:
            raw = _bytes(text)
            return None if raw is None else (name, raw)
        case _:
            return None


def _parsed(text: str | None) -> object:
    try:
        found: object = None if text is None else orjson.loads(text)  # it refuses invalid Unicode
    except ValueError:
        return None
    return found


def _bytes(text: object) -> bytes | None:
    try:
        return b64decode(text, validate=True) if isinstance(text, str) else None
    except ValueError:
        return None
