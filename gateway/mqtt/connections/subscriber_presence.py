"""SubscriberPresence: the answer to "has this topic any subscriber?", for reason code 0x10.

Subscribers are connections here, sessions away or on other gateways, and shared subscriptions.  All sessions of the
store are followed for it, so it exists only where publishers are to be told.

Consumers of other protocols do not count, except AMQP queues that got the message.
"""

from __future__ import annotations

import msgspec

from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import Store
from entrepot.domain.routing.topic_filter import TopicFilterTrie
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.gateway.mqtt.fan_out.audience import NOBODY
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.gateway.mqtt.sessions.record import SESSION_PREFIX, decode_session
from entrepot.gateway.mqtt.topics.names import REPLAY, SHARE, parse_replay, parse_share

Filters = tuple[str, ...]


class SubscriberPresence:
    """Subscribers of topic names; call `start` first."""

    def __init__(self, store: Store, hub: DeliveryHub) -> None:
        self._hub = hub
        self._shares: TopicFilterTrie[object, None] = TopicFilterTrie()
        self._sessions: TopicFilterTrie[str, None] = TopicFilterTrie()
        self._table: WatchedTable[Filters] = WatchedTable(store.key_values, SESSION_PREFIX, _decode)
        self._table.on_change.append(self._changed)

    async def start(self) -> None:
        """Load the existing sessions and follow them.  Raises what the store raises."""
        await self._table.start()

    def close(self) -> None:
        self._table.close()

    def joined(self, topic_filter: str, member: object) -> None:
        """Note a connection's membership in a share."""
        self._shares.add(topic_filter, member, None)

    def left(self, topic_filter: str, member: object) -> None:
        self._shares.remove(topic_filter, member)

    def has_any(self, message: Message) -> bool:
        """True if any subscriber gets the message, or may get it when its delay ends."""
        if message.further_queues or SystemProperty.DELIVER_AT_MS in message.system:
            return True
        name = message.sub_topic
        if self._hub.match(name) is not NOBODY:
            return True
        return any(True for trie in (self._shares, self._sessions) for _ in trie.match(name))

    def _changed(self, name: str, before: Filters | None, now: Filters | None) -> None:
        for each in before or ():
            self._sessions.remove(each, name)
        for each in now or ():
            self._sessions.add(each, name, None)


def _decode(value: bytes) -> Filters:
    try:
        record = decode_session(value)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    return tuple({_filter_of(each.filter) for each in record.subscriptions})


def _filter_of(text: str) -> str:
    """The filter that names are matched with: of a share or a replay the inner one."""
    if text.startswith(SHARE):
        share = parse_share(text)
        return text if share is None else share.filter
    if text.startswith(REPLAY):
        replay = parse_replay(text, 0)
        return text if replay is None else replay.filter
    return text
