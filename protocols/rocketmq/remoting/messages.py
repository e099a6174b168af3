"""Messages: ours to RocketMQ's records, and back.

A value with a property of RocketMQ goes there, as far as that can say it; the rest is a fact of `properties`.  A round
trip changes nothing: a message that was sent from here comes back as it was.

    message id      UNIQ_KEY: 16 bytes in the form of RocketMQ's gRPC clients, another id as its hash and as a fact
    tag, keys       TAGS; KEYS, with blanks between
    message group   __SHARDINGKEY
    delivery time   TIMER_DELIVER_MS, while it is to come
    body            as it is; a single record without one is refused, so that goes as one zero byte with a fact
    user's          properties of the same names, as far as they travel
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import (
    NO_SYSTEM_PROPERTIES,
    Message,
    Properties,
    PropertyValue,
    SharedProperties,
    StoredMessage,
    SystemProperty,
    SystemValue,
    as_texts,
    of_texts,
)
from entrepot.domain.names import DEAD_LETTER_PREFIX, split_name
from entrepot.protocols.rocketmq.mapping import (
    BODY_IS_EMPTY,
    EMPTY_BODY,
    KEYS,
    MESSAGE_GROUP,
    MESSAGE_ID,
    MESSAGE_ID_SIZE,
    QOS,
    SUB_TOPIC,
    TAG,
    domain_id,
    is_published,
    keys_of,
    sayable_keys,
    sayable_tag,
    wire_id,
)
from entrepot.protocols.rocketmq.properties import RESERVED, SHARDING_KEY, bring_back, carry, is_plain
from entrepot.protocols.rocketmq.remoting import property_text
from entrepot.protocols.rocketmq.remoting.names import Names, origin_of
from entrepot.protocols.rocketmq.remoting.records import Record, inflated

EVERYTHING: Final = "*"
UNIQUE_KEY, TAGS, INDEX_KEYS = "UNIQ_KEY", "TAGS", "KEYS"
BORN_HOST, BORN_MS, PRIORITY = "__BORNHOST", "BORN_TIMESTAMP", "_SYS_MSG_PRIORITY_"
DELIVER_MS, HALF, PRODUCER_GROUP = "TIMER_DELIVER_MS", "TRAN_MSG", "PGROUP"
CHECK_AFTER = "CHECK_IMMUNITY_TIME_IN_SECONDS"
RETRY_TOPIC, RECEIPT, ORIGIN_ID = "RETRY_TOPIC", "POP_CK", "ORIGIN_MESSAGE_ID"
_OF_OUR_STORE: Final = (
    *(SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET),
    *(SystemProperty.DEAD_LETTER_QUEUE, SystemProperty.DEAD_LETTER_QUEUE_OFFSET),
)
"""Facts of retries and dead letters of a store of ours: a cluster has none of these."""
_TIME: Final = re.compile("[0-9]{1,15}")
_NOT_SAID: Final = RESERVED - {BORN_HOST}
"""Properties that are not their producer's: RocketMQ uses them itself, and its brokers add them."""
MAX_GROUP_CHARACTERS: Final = 1024
"""Longest message group that is a sharding key; a longer one is a fact alone, and still chooses the queue."""
REMEMBERED_TEXTS: Final = 256
"""Recurring properties that are kept of each way, read and written: some MiB where all are as long as may be."""
_MOST_BYTES_OF_A_CHARACTER: Final = 4


def tags_for(wanted: FilterExpression | None) -> str:
    """Return the subscription of a filter: its tags where brokers understand them as they are understood here, else
    all messages (`*`).  A tag that RocketMQ cannot say is a fact of the message, which no broker looks at."""
    if wanted is None or wanted.kind is not FilterKind.TAG or not wanted.text:
        return EVERYTHING
    is_sayable = is_plain(wanted.text) and "|" not in wanted.text.replace("||", "")
    return wanted.text if is_sayable else EVERYTHING


def body_for(message: Message) -> bytes:
    """Return the body of a message's record."""
    return message.body or EMPTY_BODY


def properties_for(message: Message, deliver_at_ms: int | None = None) -> str:
    """Return the properties of a message's record as one text.  It must have a message id.  `deliver_at_ms`: its time,
    if that is to come.  Raises MESSAGE_PROPERTIES_TOO_LARGE."""
    own = {UNIQUE_KEY: wire_id(message.message_id)}
    if deliver_at_ms is not None:
        own[DELIVER_MS] = str(deliver_at_ms)
    if message.born_time_ms:
        own[BORN_MS] = str(message.born_time_ms)  # a batch has one for all of its messages
    odd_id = b"" if len(message.message_id) == MESSAGE_ID_SIZE else message.message_id
    parts = (
        *(message.topic, message.sub_topic, message.qos, message.tag, message.keys, message.message_group),
        *(not message.body, odd_id, message.properties, tuple(message.system.items())),
    )
    try:
        recurring = _recurring(*parts)
    except TypeError:  # a list among them, as a message has that was kept elsewhere: no table takes it as a key
        recurring = _recurring.__wrapped__(*parts)
    return _checked(property_text.encode(own) + recurring)


@lru_cache(maxsize=REMEMBERED_TEXTS)
def _recurring(
    topic: str,
    sub_topic: str,
    qos: int,
    tag: str,
    keys: tuple[str, ...],
    message_group: str,
    is_empty: bool,
    odd_id: bytes,
    properties: Properties,
    system: tuple[tuple[str, SystemValue], ...],
) -> str:
    """Return the text of what many messages of a producer have in common.  `odd_id`: a message id that UNIQ_KEY cannot
    say.  Raises MESSAGE_PROPERTIES_TOO_LARGE."""
    message = Message(
        *(topic, b"", sub_topic),
        qos=qos,
        tag=tag,
        keys=keys,
        message_group=message_group,
        properties=properties,
        system=dict(system),
    )
    facts: dict[str, PropertyValue] = dict(as_texts(message.system))
    if odd_id:
        facts[MESSAGE_ID] = odd_id
    if is_empty:
        facts[BODY_IS_EMPTY] = "1"
    return _checked(property_text.encode(_properties(message, facts)))


def _properties(message: Message, facts: dict[str, PropertyValue]) -> dict[str, str]:
    """Return the properties of all that a message has beside its body, id and times; `facts`: those known already."""
    found = {TAGS: sayable_tag(message, facts), INDEX_KEYS: " ".join(sayable_keys(message, facts))}
    group = message.message_group
    if group and is_plain(group) and len(group) <= MAX_GROUP_CHARACTERS:
        found[SHARDING_KEY] = group
    elif group:
        facts[MESSAGE_GROUP] = group
    born_host = message.system_text(SystemProperty.BORN_HOST) or ""
    if is_plain(born_host):
        found[BORN_HOST] = born_host
    if message.sub_topic not in ("", split_name(message.topic)[1]):
        facts[SUB_TOPIC] = message.sub_topic
    if message.qos != 2:
        facts[QOS] = str(message.qos)
    return found | carry(message.properties, facts)


def _checked(text: str) -> str:
    """Return the text of properties.  Raises MESSAGE_PROPERTIES_TOO_LARGE."""
    size = len(text) * _MOST_BYTES_OF_A_CHARACTER
    if size > property_text.MAX_TEXT_BYTES and (size := len(text.encode())) > property_text.MAX_TEXT_BYTES:
        raise EntrepotError(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the properties have {size} bytes as RocketMQ keeps them, the limit is {property_text.MAX_TEXT_BYTES}",
        )
    return text


def stored_message(
    record: Record, names: Names, queue_id: int, *, topic: str = "", queue_offset: int | None = None
) -> StoredMessage:
    """Return the message of a record.  `queue_id`: ours; `topic`: of ours where it was read, if that is not the
    record's; `queue_offset`: likewise.  Raises MESSAGE_CORRUPTED."""
    if record.fault:
        raise CorruptedError(record.fault)
    told = record.properties
    topic = topic or names.name(record.topic)
    said = tuple([(name, value) for name, value in told.items() if name not in _NOT_SAID])
    common = _told(_origin(told, names, topic) or topic, said, told.get(TAGS, ""), told.get(INDEX_KEYS, ""))
    body, born, own_id = inflated(record), told.get(BORN_MS, ""), common.own_id
    return StoredMessage(
        topic,
        b"" if common.is_empty and body == EMPTY_BODY else body,
        *(common.sub_topic, queue_id, common.qos, common.tag, common.keys, common.message_group),
        own_id if isinstance(own_id, bytes) else domain_id(told.get(UNIQUE_KEY, "")),
        int(born) if _TIME.fullmatch(born) else max(record.born_time_ms, 0),
        *(common.filter_hash, common.properties, _with_well_known(record, names, topic, common.system)),
        queue_offset=record.queue_offset if queue_offset is None else queue_offset,
        commit_log_offset=record.commit_log_offset,
        store_time_ms=max(record.store_time_ms, 0),
    )


def _origin(told: Mapping[str, str], names: Names, topic: str) -> str:
    """Return the topic that a dead letter was sent to, or nothing for other messages."""
    if not split_name(topic)[1].startswith(DEAD_LETTER_PREFIX):
        return ""
    return names.name(origin_of(told.get(RETRY_TOPIC, ""), names.resource(topic).removeprefix(DEAD_LETTER_PREFIX)))


class _Told(NamedTuple):
    """Values that many records of a producer have in common.  `is_empty`: a body of one zero byte stands for none;
    `own_id`: a message id that UNIQ_KEY cannot say."""

    sub_topic: str
    qos: int
    tag: str
    keys: tuple[str, ...]
    message_group: str
    is_empty: bool
    own_id: PropertyValue | None
    filter_hash: int
    properties: Properties
    system: Mapping[str, SystemValue]


@lru_cache(maxsize=REMEMBERED_TEXTS)
def _told(topic: str, said: tuple[tuple[str, str], ...], tags: str, keys: str) -> _Told:
    """Read the properties of a record that are its producer's; `said` has none of RocketMQ's own."""
    told = dict(said)
    properties, facts = bring_back(told)
    _drop_own(facts, topic)
    is_empty = facts.pop(BODY_IS_EMPTY, "") == "1"
    sub_topic = _text(facts.pop(SUB_TOPIC, None), split_name(topic)[1])
    qos, tag = facts.pop(QOS, "2"), _text(facts.pop(TAG, None), tags)
    own_keys = keys_of(facts.pop(KEYS, None), tuple(keys.split()))
    group, own_id = _text(facts.pop(MESSAGE_GROUP, None), told.get(SHARDING_KEY, "")), facts.pop(MESSAGE_ID, None)
    correlation_id = facts.get(SystemProperty.CORRELATION_ID)
    if isinstance(correlation_id, str):
        facts[SystemProperty.CORRELATION_ID] = correlation_id.encode()
    if told.get(BORN_HOST):
        facts.setdefault(SystemProperty.BORN_HOST, told[BORN_HOST])
    return _Told(
        *(sub_topic, int(qos) if qos in ("0", "1", "2") else 2, tag, own_keys, group, is_empty, own_id),
        *(filter_hash(sub_topic, tag), properties),
        SharedProperties(of_texts(facts), properties) if facts else NO_SYSTEM_PROPERTIES,
    )


def _drop_own(facts: dict[str, PropertyValue], topic: str) -> None:
    """Drop facts that any producer of the cluster could plant: only a store of ours gives them their meaning."""
    for name in _OF_OUR_STORE:
        facts.pop(name, None)
    sent_to = facts.get(SystemProperty.SENT_TO)
    if sent_to is not None and not (isinstance(sent_to, str) and split_name(sent_to)[0] == split_name(topic)[0]):
        del facts[SystemProperty.SENT_TO]


def _with_well_known(
    record: Record, names: Names, topic: str, system: Mapping[str, SystemValue]
) -> Mapping[str, SystemValue]:
    """Return the well-known properties with those that the cluster tells beside the message itself."""
    told = record.properties
    said: dict[str, PropertyValue] = {}
    if BORN_HOST not in told and not is_published(told.get(UNIQUE_KEY, "")):
        # A record tells the sender, which is the producer itself if the id is of RocketMQ's own clients.
        said[SystemProperty.BORN_HOST] = record.born_host
    if _TIME.fullmatch(told.get(PRIORITY, "")):
        said[SystemProperty.PRIORITY] = told[PRIORITY]
    if DELIVER_MS in told:
        said[SystemProperty.DELIVER_AT_MS] = told[DELIVER_MS]
    if split_name(topic)[1].startswith(DEAD_LETTER_PREFIX):
        said[SystemProperty.DEAD_LETTER_TOPIC] = _origin(told, names, topic)
        said[SystemProperty.DEAD_LETTER_MESSAGE_ID] = domain_id(told.get(UNIQUE_KEY, "")).hex().upper()
        said[SystemProperty.DEAD_LETTER_ATTEMPTS] = str(record.reconsume_times)
    more = {name: value for name, value in said.items() if value and name not in system}
    return {**system, **of_texts(more)} if more else system


def _text(fact: PropertyValue | None, otherwise: str) -> str:
    return fact if isinstance(fact, str) else otherwise
