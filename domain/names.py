"""Names of topics and groups: the alphabet, the limits, the namespaces, and the system's own names.

A name in a namespace other than `default` is written `<namespace>/<name>` in every call to the store.  No name contains
`/`, so names of two namespaces never collide; `default` is never spelt out.  Listeners use plain names and add their
namespace.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from entrepot.domain.errors import Code, EntrepotError

DEFAULT_NAMESPACE: Final = "default"
CATCH_ALL_TOPIC: Final = "mqtt"
"""The Topic of MQTT names whose first level cannot be a Topic."""

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 120
MAX_SUB_TOPIC_BYTES: Final = 65_535
MAX_NAMESPACE_LENGTH: Final = 64
NAMESPACE_SEPARATOR: Final = "/"
DEAD_LETTER_PREFIX: Final = "%DLQ%"
RETRY_PREFIX: Final = "%RETRY%"
QUEUE_FEED_PREFIX: Final = "%AMQP%"
"""Prefix of the Topic that holds the messages of an AMQP queue.  Listeners create and write it for that queue alone."""
SUBSCRIPTION_FEED_PREFIX: Final = "%SUB%"
"""Prefix of the Topic with the messages for a subscription's sink.  Only webhooks write it."""
FEED_PREFIXES: Final = (QUEUE_FEED_PREFIX, SUBSCRIPTION_FEED_PREFIX)
TRACE_TOPIC: Final = "%TRACE%"
"""Topic of the hops of traced messages; made on first use."""
SYSTEM_PREFIX: Final = "%"
REMEMBERED_NAMES: Final = 4096
"""Size of the cache of retry topics' names, which recur."""

_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")
_GROUP_NAME = re.compile(r"[%|~a-zA-Z0-9_-]+")
_RETRY_NAME = re.compile(r"%RETRY%[%|~a-zA-Z0-9_-]+\+[%|a-zA-Z0-9_-]+")
_NAMESPACE = re.compile(r"[a-zA-Z0-9_-]+")


def is_system_topic(name: str) -> bool:
    """True if the name is the system's own: readable by consumers, never published to by clients."""
    plain = split_name(name)[1]
    return plain.startswith(SYSTEM_PREFIX) and not plain.startswith(FEED_PREFIXES)


def is_queue_feed(name: str) -> bool:
    """True for the Topic of an AMQP queue or a subscription: listeners create and write it for themselves."""
    return split_name(name)[1].startswith(FEED_PREFIXES)


def is_subscription_feed(name: str) -> bool:
    """True for the Topic of a subscription."""
    return split_name(name)[1].startswith(SUBSCRIPTION_FEED_PREFIX)


def subscription_feed(namespace: str, subscription: str) -> str:
    """Return the Topic of a subscription, by its id."""
    return qualified(namespace, SUBSCRIPTION_FEED_PREFIX + subscription)


def is_hidden_topic(name: str) -> bool:
    """True if topic filters with wildcards, and operations on all Topics, leave the topic out."""
    return split_name(name)[1].startswith(SYSTEM_PREFIX)


def queue_feed(namespace: str, queue: str) -> str:
    """Return the Topic of an AMQP queue, by the queue's encoded name (`domain.entity_name`)."""
    return qualified(namespace, QUEUE_FEED_PREFIX + queue)


def is_topic_name(name: str) -> bool:
    """True if a user's Topic may have the name: RocketMQ's alphabet, 1 to 127 characters, no leading `%`."""
    return 0 < len(name) <= MAX_TOPIC_LENGTH and _NAME.fullmatch(name) is not None and not is_hidden_topic(name)


def check_topic_name(name: str, *, system_allowed: bool = False, feed_allowed: bool = False) -> None:
    """Raise `ILLEGAL_TOPIC` for an invalid topic name, FORBIDDEN for a system name.  System names pass with
    `system_allowed`, names of AMQP queues and subscriptions also with `feed_allowed`."""
    if is_topic_name(name):
        return
    if is_queue_feed(name) and _is_system_name(name):
        if system_allowed or feed_allowed:
            return
        kind = "a subscription" if is_subscription_feed(name) else "an AMQP queue"
        raise EntrepotError(Code.FORBIDDEN, f"{name!r} is {kind}: it is written and changed as that alone")
    if is_system_topic(name) and _is_system_name(name):
        if system_allowed:
            return
        raise EntrepotError(Code.FORBIDDEN, f"{name!r} is a system topic: it can be consumed, not written or changed")
    raise EntrepotError(
        Code.ILLEGAL_TOPIC,
        f"{name[:160]!r} is not a topic name: 1 to {MAX_TOPIC_LENGTH} characters out of a-z A-Z 0-9 _ - % |",
    )


def _is_system_name(name: str) -> bool:
    if _RETRY_NAME.fullmatch(name):
        return len(name) <= len(RETRY_PREFIX) + MAX_GROUP_LENGTH + 1 + MAX_TOPIC_LENGTH
    alphabet = _GROUP_NAME if name.startswith(DEAD_LETTER_PREFIX) else _NAME
    return alphabet.fullmatch(name) is not None and len(name) <= MAX_TOPIC_LENGTH + len(DEAD_LETTER_PREFIX)


def check_group_name(name: str) -> None:
    """Raise `ILLEGAL_CONSUMER_GROUP` for an invalid name of a consumer group.  The alphabet is RocketMQ's and `~`,
    which separates the name of a shared subscription from the hash of its filter (`domain.share`)."""
    if not (0 < len(name) <= MAX_GROUP_LENGTH and _GROUP_NAME.fullmatch(name)):
        raise EntrepotError(
            Code.ILLEGAL_CONSUMER_GROUP,
            f"{name[:160]!r} is not a group name: 1 to {MAX_GROUP_LENGTH} characters out of a-z A-Z 0-9 _ - % | ~",
        )


# -- namespaces ----------------------------------------------------------------------------------------------------


def check_namespace(name: str) -> None:
    """Raise BAD_REQUEST for an invalid namespace."""
    if not (0 < len(name) <= MAX_NAMESPACE_LENGTH and _NAMESPACE.fullmatch(name)):
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"{name[:80]!r} is not a namespace: 1 to {MAX_NAMESPACE_LENGTH} characters out of a-z A-Z 0-9 _ -",
        )


def qualified(namespace: str, name: str) -> str:
    """Return the stored name."""
    return name if namespace == DEFAULT_NAMESPACE else f"{namespace}{NAMESPACE_SEPARATOR}{name}"


def split_name(name: str) -> tuple[str, str]:
    """Return (namespace, plain name) of a stored name."""
    namespace, separator, plain = name.partition(NAMESPACE_SEPARATOR)
    return (namespace, plain) if separator else (DEFAULT_NAMESPACE, name)


def check_stored_name(name: str, code: Code) -> None:
    """Raise `code` for a name that spells out the default namespace: each name has one form."""
    if name.startswith(DEFAULT_NAMESPACE + NAMESPACE_SEPARATOR):
        raise EntrepotError(code, f"{name[:160]!r}: names of the namespace {DEFAULT_NAMESPACE!r} stand alone")


def check_same_namespace(topic: str, group: str) -> None:
    """Raise FORBIDDEN for a group and a topic of different namespaces."""
    if split_name(topic)[0] != split_name(group)[0]:
        raise EntrepotError(Code.FORBIDDEN, f"group {group!r} and topic {topic!r} are not of one namespace")


# -- the system's own topics -----------------------------------------------------------------------------------------


def dead_letter_topic(group: str) -> str:
    """Return the topic of a group's dead letters (RocketMQ: `%DLQ%<group>`)."""
    namespace, plain = split_name(group)
    return qualified(namespace, DEAD_LETTER_PREFIX + plain)


def dead_letter_group(topic: str) -> str | None:
    """Return the group whose dead letters the topic holds, or None if it is not a dead-letter topic."""
    namespace, plain = split_name(topic)
    return qualified(namespace, plain[len(DEAD_LETTER_PREFIX) :]) if plain.startswith(DEAD_LETTER_PREFIX) else None


@lru_cache(maxsize=REMEMBERED_NAMES)
def retry_topic(group: str, topic: str) -> str:
    """Return the topic where messages of `topic` wait for retries by `group` (RocketMQ: `%RETRY%<group>+<topic>`)."""
    namespace, plain = split_name(group)
    return qualified(namespace, f"{RETRY_PREFIX}{plain}+{split_name(topic)[1]}")


def retry_group(topic: str) -> str:
    """Return the group of a retry topic."""
    namespace, plain = split_name(topic)
    return qualified(namespace, plain[len(RETRY_PREFIX) :].rpartition("+")[0])


def retried_topic(topic: str) -> str:
    """Return the topic whose messages a retry topic holds."""
    return qualified(split_name(topic)[0], topic.rpartition("+")[2])


def is_retry_topic(topic: str) -> bool:
    """True for a retry topic."""
    return split_name(topic)[1].startswith(RETRY_PREFIX)
