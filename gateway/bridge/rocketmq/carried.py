"""A message on its way over a bridge: what it keeps, and the mark by which it is known if it comes back.

Kept are body, keys, tag, user properties, message group, message id and born time, and well-known properties that are
the producer's.  The mark is that of all bridges (`gateway/bridge/origin.py`).
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import ROUND_ROBIN, Message, StoredMessage, SystemProperty
from entrepot.gateway.bridge.rocketmq.renaming import renamed_sub_topic

_OF_A_PLACE: Final = frozenset(
    (
        *(SystemProperty.RETRY_TOPIC, SystemProperty.RETRY_QUEUE, SystemProperty.RETRY_QUEUE_OFFSET),
        *(SystemProperty.SENT_TO, SystemProperty.TAKEN_IN, SystemProperty.BRIDGE),
        *(SystemProperty.DELIVER_AT_MS, SystemProperty.TRANSACTION_ID, SystemProperty.CHECK_AFTER_MS),
    )
)
"""Well-known properties of where a message was, and of waits that are over."""


def bridge_word(name: str) -> str:
    """Return the word of a bridge in messages: no bridge to an MQTT broker has it."""
    return f"rocketmq/{name}"


def brought(message: StoredMessage, local: str, queue_id: int, bridge: str) -> Message:
    """Return a message of the cluster for a topic here.  `queue_id`: its queue, unless a message group chooses it."""
    made = _renamed(message, local, queue_id)
    made.system = {**made.system, SystemProperty.BRIDGE: bridge_word(bridge)}
    return made


def sent(message: StoredMessage, remote: str, queue_id: int, mark: tuple[str, str]) -> Message:
    """Return a message from here for a topic of the cluster, with the bridge's mark."""
    made = _renamed(message, remote, queue_id)
    made.properties = (*made.properties, mark)
    return made


def bears(message: Message, mark: tuple[str, str]) -> bool:
    """True if a message was carried out by the bridge before."""
    return mark in message.properties


def _renamed(message: StoredMessage, topic: str, queue_id: int) -> Message:
    sub_topic = renamed_sub_topic(message.sub_topic, message.topic, topic)
    return Message(
        topic,
        message.body,
        sub_topic=sub_topic,
        queue_id=ROUND_ROBIN if message.message_group else queue_id,
        qos=message.qos,
        tag=message.tag,
        keys=message.keys,
        message_group=message.message_group,
        message_id=message.message_id,
        born_time_ms=message.born_time_ms,
        filter_hash=filter_hash(sub_topic, message.tag),
        properties=message.properties,
        system={name: value for name, value in message.system.items() if name not in _OF_A_PLACE},
    )
