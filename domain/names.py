"""Names of topics and groups: the alphabet, the limits, and the system's own names."""

from __future__ import annotations

import re
from typing import Final

from domain.errors import Code, EntrepotError

DEFAULT_NAMESPACE: Final = "default"
CATCH_ALL_TOPIC: Final = "mqtt"
"""The Topic of MQTT names whose first level cannot be a Topic."""

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 120
MAX_SUB_TOPIC_BYTES: Final = 65_535
DEAD_LETTER_PREFIX: Final = "%DLQ%"
SYSTEM_PREFIX: Final = "%"

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")


def is_system_topic(name: str) -> bool:
    """Whether the name is the system's own: readable by consumers, never published to by clients."""
    return name.startswith(SYSTEM_PREFIX)


def is_topic_name(name: str) -> bool:
    """Whether the name may be a user's Topic: RocketMQ's alphabet, 1 to 127 characters, no leading `%`."""
    return 0 < len(name) <= MAX_TOPIC_LENGTH and _NAME.fullmatch(name) is not None and not is_system_topic(name)


def check_topic_name(name: str, *, system_allowed: bool = False) -> None:
    """Raise `ILLEGAL_TOPIC` unless the name is a topic's.  System names only where `system_allowed`."""
    if is_topic_name(name):
        return
    if is_system_topic(name) and _NAME.fullmatch(name) and len(name) <= MAX_TOPIC_LENGTH + len(DEAD_LETTER_PREFIX):
        if system_allowed:
            return
        raise EntrepotError(Code.FORBIDDEN, f"{name!r} is a system topic: it can be consumed, not written or changed")
    raise EntrepotError(
        Code.ILLEGAL_TOPIC,
        f"{name[:160]!r} is not a topic name: 1 to {MAX_TOPIC_LENGTH} characters out of a-z A-Z 0-9 _ - % |",
    )


def check_group_name(name: str) -> None:
    """Raise `ILLEGAL_CONSUMER_GROUP` unless the name is a consumer group's."""
    if not (0 < len(name) <= MAX_GROUP_LENGTH and _NAME.fullmatch(name)):
        raise EntrepotError(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"{name[:160]!r} is not a group name: 1 to {MAX_GROUP_LENGTH} characters out of a-z A-Z 0-9 _ - % |",
        )


def dead_letter_topic(group: str) -> str:
    """The topic of a group's dead letters (RocketMQ: `%DLQ%<group>`)."""
    return DEAD_LETTER_PREFIX + group


def dead_letter_group(topic: str) -> str | None:
    """The group whose dead letters the topic holds, or None if it is not a dead-letter topic."""
    return topic[len(DEAD_LETTER_PREFIX) :] if topic.startswith(DEAD_LETTER_PREFIX) else None
