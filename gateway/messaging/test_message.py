"""A test message for RocketMQ's listener, in words that need none of its libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RocketMqTestMessage:
    """A message as a producer sends it.  `topic` is the plain name; `namespace` is empty for the default one."""

    topic: str
    namespace: str
    body: bytes
    tag: str = ""
    keys: Sequence[str] = ()
    message_group: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    deliver_at_ms: int | None = None
