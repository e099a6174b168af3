"""Acceptance: checks of a message against its topic's definition, in each store and ahead of one."""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import (
    MAX_KEYS_BYTES,
    MAX_MESSAGE_GROUP_BYTES,
    MAX_MESSAGE_ID_BYTES,
    MAX_TAG_BYTES,
    Message,
    SystemProperty,
    compaction_key,
)
from entrepot.domain.names import MAX_SUB_TOPIC_BYTES
from entrepot.domain.timing import MAX_DELAY_MS
from entrepot.domain.topic import Cleanup, Topic


def too_large(size: int, limit: int) -> EntrepotError:
    """Return the refusal of a body beyond the limit."""
    return EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, f"the body has {size} bytes, the limit is {limit}")


def field_too_long(message: Message) -> EntrepotError | None:
    """Return the refusal of the first field that is too long for a record, or None."""
    fields = (
        ("the tag has", len(message.tag.encode()), MAX_TAG_BYTES),
        ("the keys have", keys_size(message.keys), MAX_KEYS_BYTES),
        ("the message group has", len(message.message_group.encode()), MAX_MESSAGE_GROUP_BYTES),
        ("the message id has", len(message.message_id), MAX_MESSAGE_ID_BYTES),
        ("the sub-topic has", len(message.sub_topic.encode()), MAX_SUB_TOPIC_BYTES),
    )
    for what, size, limit in fields:
        if size > limit:
            return EntrepotError(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"{what} {size} bytes, the limit is {limit}")
    return None


def unfit(message: Message) -> EntrepotError:
    """Return the refusal of a message that no record can hold: by a text that is not valid Unicode, or a field that is
    long or too large a number."""
    try:
        too_long = field_too_long(message)
        for name, value in (*message.properties, *message.system.items()):
            name.encode()
            if isinstance(value, str):
                value.encode()
    except UnicodeEncodeError as error:
        return EntrepotError(Code.BAD_REQUEST, f"a text field of the message is not valid Unicode: {error.reason}")
    number = "a number of the message does not fit its record"
    return too_long or EntrepotError(Code.MESSAGE_PROPERTIES_TOO_LARGE, number)


def fits_a_record(message: Message) -> bool:
    """True if a record can hold the message's texts and numbers; their lengths are not looked at."""
    if not (0 <= message.born_time_ms < 1 << 64 and 0 <= message.filter_hash < 1 << 64):
        return False
    texts = [message.sub_topic, message.tag, message.message_group, *message.keys]
    for name, value in (*message.properties, *message.system.items()):
        texts += (name, value) if isinstance(value, str) else (name,)
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return False
    return True


def keys_size(keys: Sequence[str]) -> int:
    """Return the bytes that the keys of a message take together, with their separators."""
    return sum(len(key.encode()) for key in keys) + max(len(keys) - 1, 0)


def lacks_key() -> EntrepotError:
    """Return the refusal of a message without a key in a compacted topic."""
    return EntrepotError(Code.BAD_REQUEST, "a message of a compacted topic needs a key")


def is_for_later(message: Message, now_ms: int) -> bool:
    """True if the message has a delivery time in the future.  Raises ILLEGAL_DELIVERY_TIME."""
    at_ms = message.system.get(SystemProperty.DELIVER_AT_MS)
    if at_ms is None:
        return False
    if not isinstance(at_ms, int):
        raise EntrepotError(Code.ILLEGAL_DELIVERY_TIME, f"{str(at_ms)[:80]!r} is not a time in epoch milliseconds")
    if at_ms > now_ms + MAX_DELAY_MS:
        raise EntrepotError(
            Code.ILLEGAL_DELIVERY_TIME, f"the delivery time is more than {MAX_DELAY_MS // 86_400_000} days ahead"
        )
    return at_ms > now_ms


def refusals_ahead(
    messages: Sequence[Message], topic: Topic, max_message_bytes: int, now_ms: int
) -> dict[int, EntrepotError]:
    """Return the refusals that a store with this body limit would give, by the messages' places."""
    limit = max_message_bytes if topic.max_message_bytes is None else min(max_message_bytes, topic.max_message_bytes)
    is_compacted = topic.cleanup is Cleanup.COMPACT
    refusals: dict[int, EntrepotError] = {}
    for place, message in enumerate(messages):
        if len(message.body) > limit:
            refusals[place] = too_large(len(message.body), limit)
        elif is_compacted and not compaction_key(message):
            refusals[place] = lacks_key()
        elif message.system and SystemProperty.DELIVER_AT_MS in message.system:
            try:
                is_for_later(message, now_ms)
            except EntrepotError as refusal:
                refusals[place] = refusal.with_traceback(None)
    return refusals
