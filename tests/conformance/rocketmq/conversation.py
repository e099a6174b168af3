"""Conversation: calls of RocketMQ's service as data, asked of any server by its stubs.

A request is a dictionary in the JSON of Protocol Buffers. A text with `$` has a name in it: `$topic`, `$group`,
`$client`; `$id1` and so on, message ids of the play; or it is `$in 5s`, a time from now; or a path into an earlier
answer, such as `$got.messages.0.system_properties.receipt_handle`. Bytes are bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One call. `name`: that of its answer in later paths. `polls`: a receive without a message is made again, up to
    this often."""

    call: str
    request: Mapping[str, Any]
    name: str = ""
    polls: int = 1


@dataclass(frozen=True, slots=True)
class Conversation:
    """Calls one after the other, on a topic and a group of their own. `message_type`: that of the topic. `headers`
    replace those of a client."""

    name: str
    steps: tuple[Step, ...]
    message_type: str = "MIXED"
    fifo: bool = False
    max_attempts: int = 17
    headers: Mapping[str, str] = field(default_factory=dict)
