"""Messages with every odd feature that one can have, for comparisons of two ways to read them."""

from __future__ import annotations

from random import Random
from typing import Any

import cbor2
import orjson

from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from tests.support.seed import seeded


def odd_message(number: int, random: Random, queues: int = 3, **others: Any) -> Message:
    """One with features that go by its number."""
    name = ("factory", f"factory/line{number % 5}", f"factory/line{number % 5}/temp", "factory/ü")[number % 4]
    tag = ("", "odd", "even", "seltän")[random.randrange(4)] if number % 50 else "seldom"
    properties: tuple[tuple[str, Any], ...] = (("a", str(number % 10)), ("a", b"\xff\x00"), ("b", b"text"), ("é", ""))
    made = Message(
        "factory",
        (b"", orjson.dumps({"device": f"d{number}", "n": number}), cbor2.dumps({"n": number}), b"{broken", bytes(900))[
            number % 5
        ],
        sub_topic=name,
        queue_id=number % queues,
        qos=number % 3,
        tag=tag,
        keys=((), ("k",), ("k", "käse"))[number % 3],
        message_group=("", "group")[number % 2],
        message_id=(b"", b"\xab", random.randbytes(16))[number % 3],
        born_time_ms=(0, 1_790_000_000_000, 253_402_300_800_000, 2**63 - 1)[random.randrange(4)],
        properties=properties[: number % 5],
        system={"content_type": "x", "expires_at_ms": 2**50} if number % 7 == 0 else {},
        further_queues=(("other", 1),) if number % 11 == 0 else (),
        **others,
    )
    made.filter_hash = filter_hash(name, tag)
    return made


def odd_messages(count: int, first: int = 0) -> list[Message]:
    random = seeded(f"odd messages {first}")
    return [odd_message(number, random) for number in range(first, first + count)]
