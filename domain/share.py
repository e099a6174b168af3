"""Shares: the consumer groups of MQTT's shared subscriptions (`$share/<name>/<filter>`).

A share is its name and its filter together.  A whole Topic (`t/#`) has the group of the share's own name, so that
consumers of other protocols can join it.  Any other filter has a group of its own, since messages outside a group's
filter count as settled for the whole group.  An AMQP queue (`%AMQP%q/#`) has the one group of its consumers, so it is
shared by the queue's name alone.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from entrepot.domain.entity_name import encoded_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.escaped_names import Escaping
from entrepot.domain.names import MAX_GROUP_LENGTH, QUEUE_FEED_PREFIX, check_group_name, is_topic_name

SHARE_SEPARATOR: Final = "~"
HASH_BYTES: Final = 8
_ESCAPING: Final = Escaping("|-_")
_WHOLE: Final = "/#"


def share_group(share_name: str) -> str:
    """Return the group of the share's own name.  Other than plain characters are percent-encoded, `%` and `~` too, so
    two shares never have one name.  Raises ILLEGAL_CONSUMER_GROUP (empty, or too long)."""
    name = _ESCAPING.name(share_name)
    check_group_name(name)
    return name


def filtered_share_group(share_name: str, topic_filter: str) -> str:
    """Return the group of a share with a filter of its own.  Raises ILLEGAL_CONSUMER_GROUP."""
    digest = blake2b(topic_filter.encode(), digest_size=HASH_BYTES).hexdigest()
    name = f"{share_group(share_name)}{SHARE_SEPARATOR}{digest}"
    check_group_name(name)
    return name


def side_share_group(share_name: str, topic_filter: str) -> str:
    """Return the group by which a share of a whole Topic reads other Topics: `filtered_share_group`, or a shortened
    name where that is too long.  So every share of a whole Topic has one.  Raises ILLEGAL_CONSUMER_GROUP for a share
    name that has no group."""
    name = share_group(share_name)
    if len(name) + len(SHARE_SEPARATOR) + 2 * HASH_BYTES <= MAX_GROUP_LENGTH:
        return filtered_share_group(share_name, topic_filter)
    digest = blake2b(f"{share_name}/{topic_filter}".encode(), digest_size=HASH_BYTES).hexdigest()
    return f"{name[: MAX_GROUP_LENGTH - len(SHARE_SEPARATOR) - len(digest)]}{SHARE_SEPARATOR}{digest}"


def whole_topic(topic_filter: str) -> str | None:
    """Return the Topic that a filter covers entirely (`t/#` covers the Topic `t`), or None."""
    topic = topic_filter.removesuffix(_WHOLE)
    return topic if topic != topic_filter and is_topic_name(topic) else None


def shared_queue(topic_filter: str) -> str | None:
    """Return the Topic of the AMQP queue that a filter names, or None."""
    level, _, rest = topic_filter.partition("/")
    return level if level.startswith(QUEUE_FEED_PREFIX) and rest == "#" else None


def queue_group(share_name: str, topic: str) -> str:
    """Return the group of an AMQP queue, by its Topic, for a share named as the queue or as the group.  Raises
    FORBIDDEN for any other name: a queue has one group."""
    group = topic.removeprefix(QUEUE_FEED_PREFIX)
    if group not in (share_name, encoded_name(share_name)):
        raise EntrepotError(
            Code.FORBIDDEN, f"an AMQP queue is shared by its own name alone, not by {share_name[:80]!r}"
        )
    return group
