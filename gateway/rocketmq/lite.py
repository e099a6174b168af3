"""SyncLiteSubscription: lite topics, which are sub-topics of one level.

A lite topic costs nothing to make: it is a name in its parent's messages. A consumer group reads each of them as a
group of its own, that of MQTT's `$share/<group>/<topic>/<lite topic>`, so each has its own progress. A
client's subscription is a key-value: any gateway answers its receives.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from entrepot.domain.definitions.revision import BY_USE
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.key_value import KeyValueChange, KeyValueEvent
from entrepot.domain.message import StoredMessage
from entrepot.domain.names import qualified, split_name
from entrepot.domain.ports import PopRequest
from entrepot.domain.share import filtered_share_group
from entrepot.gateway.key_values.watched_keys import WatchedKeys
from entrepot.gateway.messaging.release import release
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.lite_start import begin_at, is_wanted
from entrepot.gateway.rocketmq.names import CLIENT_NAMES, group_of, topic_of
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError
from entrepot.protocols.rocketmq.published import LITE_SEPARATOR, check_lite_topic

PREFIX: Final = "rocketmq/lite/"
MAX_KNOWN: Final = 50_000
"""Consumers whose subscriptions are remembered here, those without any included."""
RESCAN_SECONDS: Final = 1.0
"""Interval between a waiting receive's looks at all its lite topics, for messages that are due again."""

Popped = list[tuple[str, str, Sequence[Delivery]]]


class LiteRecord(msgspec.Struct, array_like=True):
    """The lite topics of one client, sorted, and the client's own version of the set."""

    version: int
    lite_topics: list[str]

    def subscription(self, topic: str, group: str) -> LiteSubscription:
        return LiteSubscription(topic, group, self.version, tuple(self.lite_topics))


_DECODER: Final = msgspec.json.Decoder(LiteRecord)


@dataclass(slots=True)
class LiteSubscription:
    """One client's lite topics below a topic; the set may be empty. `turn`: start of the next receive. `waiting`:
    receives of the client that must learn of changes."""

    topic: str
    group: str
    version: int
    lite_topics: tuple[str, ...]
    turn: int = 0
    waiting: set[asyncio.Event] = field(default_factory=set)

    def change(self, version: int, lite_topics: tuple[str, ...]) -> None:
        """Take another set, which also holds for waiting receives."""
        self.version, self.lite_topics = version, lite_topics
        for woken in self.waiting:
            woken.set()


class LiteSubscriptions:
    """The subscriptions of the clients that this gateway has heard of."""

    def __init__(self, frontend: RocketMqFrontend) -> None:
        self._frontend, self._store = frontend, frontend.store
        self._known: OrderedDict[str, LiteSubscription | None] = OrderedDict()
        self._asked: dict[str, tuple[str, str]] = {}
        """Topic and group of the keys that the store is being asked for."""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._keys = WatchedKeys(self._store.key_values, PREFIX, self._told, lambda: tuple(self._known))
        self.close = self._keys.close

    def start(self) -> None:
        """Follow the clients' changes at other gateways."""
        try:
            self._keys.go_on()
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                raise

    def _told(self, events: Sequence[KeyValueEvent]) -> None:
        for event in events:
            key, known = event.key, self._known.get(event.key)
            if known is None and key not in self._asked:
                self._known.pop(key, None)  # it is asked for when it is needed
                continue
            record = None if event.value is None else _DECODER.decode(event.value)
            if key in self._asked:
                topic, group = self._asked[key]
                self._remember(key, None if record is None else record.subscription(topic, group))
            elif record is None:  # it has said goodbye
                self._known.pop(key, None)
            if known is not None:
                version, lite_topics = (known.version, ()) if record is None else (record.version, record.lite_topics)
                known.change(version, tuple(lite_topics))

    def group_of(self, group: str, topic: str, lite_topic: str) -> str:
        """The group that stands for a group at one lite topic."""
        namespace, plain = split_name(group)
        name = filtered_share_group(plain, f"{split_name(topic)[1]}{LITE_SEPARATOR}{lite_topic}")
        return qualified(namespace, name)

    # -- subscribing -------------------------------------------------------------------------------------------------

    async def sync(self, question: v2.SyncLiteSubscriptionRequest, caller: Caller) -> v2.SyncLiteSubscriptionResponse:
        """Take a client's whole set, or a change of it; an older version than the known one changes nothing."""
        frontend = self._frontend
        topic, group = topic_of(question.topic), group_of(question.group)
        frontend.access.check_consume(caller, topic, group)
        for name in question.lite_topic_set:
            check_lite_topic(name, frontend.limits)
            self.group_of(group, topic, name)  # raises where the group's name is too long for it
        if frontend.store.topology.topic(topic) is None:
            await frontend.topology.ensure(topic)
        frontend.group_or_by_use(group)  # raises where no use makes a group: those at lite topics stand for this one
        key = _key(caller.identity, group, topic)
        async with self._turns.setdefault(key, asyncio.Lock()):  # each change builds on the one before
            return await self._take(question, key, group, topic)

    async def _take(
        self, question: v2.SyncLiteSubscriptionRequest, key: str, group: str, topic: str
    ) -> v2.SyncLiteSubscriptionResponse:
        frontend, known = self._frontend, await self._subscription(key, group, topic)
        if known is not None and question.HasField("version") and question.version < known.version:
            return v2.SyncLiteSubscriptionResponse(status=OK_STATUS)
        before = set() if known is None else set(known.lite_topics)
        wanted = _changed(before, question.action, question.lite_topic_set)
        if len(wanted) > frontend.settings.lite_subscriptions:
            text = f"a consumer subscribes to at most {frontend.settings.lite_subscriptions} lite topics"
            raise WireError(v2.LITE_SUBSCRIPTION_QUOTA_EXCEEDED, text)
        if is_wanted(question.offset_option):
            for name in sorted(wanted - before):
                await self._begin(group, topic, name, question.offset_option)
        found = known or LiteSubscription(topic, group, 0, ())
        found.change(question.version, tuple(sorted(wanted)))
        if known is None or wanted != before:
            await self._keep(key, found)
        self._remember(key, found)
        return v2.SyncLiteSubscriptionResponse(status=OK_STATUS)

    async def _begin(self, group: str, topic: str, lite_topic: str, option: v2.OffsetOption) -> None:
        of = self.group_of(group, topic, lite_topic)
        if self._store.topology.group(of) is None:
            await self._store.topology.put_group(replace(self._frontend.groups.new_group(of), revision=BY_USE))
        await begin_at(self._store, of, topic, f"{split_name(topic)[1]}{LITE_SEPARATOR}{lite_topic}", option)

    async def _keep(self, key: str, found: LiteSubscription | None) -> None:
        """Write a set, or delete it for None; an empty set keeps its client from consuming the whole topic."""
        value = None if found is None else msgspec.json.encode(LiteRecord(found.version, list(found.lite_topics)))
        try:
            await self._keys.write([KeyValueChange(key, value)])
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                raise

    async def forget(self, client_id: str, group: str | None) -> None:
        """Forget a client that has said goodbye."""
        gone = [
            key
            for key, found in self._known.items()
            if found is not None and key.endswith(_client(client_id)) and group in (None, found.group)
        ]
        for key in gone:
            self._known.pop(key, None)
            await self._keep(key, None)

    async def subscription(self, client_id: str, group: str, topic: str) -> LiteSubscription | None:
        """A client's subscription at any gateway; None for a consumer of whole topics."""
        return await self._subscription(_key(client_id, group, topic), group, topic)

    async def _subscription(self, key: str, group: str, topic: str) -> LiteSubscription | None:
        while key not in self._known:
            self._asked[key] = (topic, group)
            try:
                await self._keys.look([key])
            except EntrepotError as error:
                if error.code is not Code.UNSUPPORTED:
                    raise
                self._remember(key, None)
            finally:
                self._asked.pop(key, None)
        return self._known[key]

    def _remember(self, key: str, found: LiteSubscription | None) -> None:
        self._known.pop(key, None)
        self._known[key] = found
        while len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    # -- receiving ---------------------------------------------------------------------------------------------------

    async def pop(self, subscription: LiteSubscription, request: PopRequest) -> Popped:
        """Pop from the client's lite topics in turn, waiting for messages."""
        loop = asyncio.get_running_loop()
        end = loop.time() + request.wait_ms / 1000
        rescan_at, lite_topics = 0.0, subscription.lite_topics
        arrived: set[str] = set()
        woken = asyncio.Event()
        with self._watch(request.topic, arrived, woken):
            subscription.waiting.add(woken)
            try:
                while True:
                    if loop.time() >= rescan_at or lite_topics is not subscription.lite_topics:
                        names, lite_topics = _in_turn(subscription), subscription.lite_topics
                        rescan_at = loop.time() + RESCAN_SECONDS
                    else:
                        names = list(arrived.intersection(lite_topics))
                    arrived.clear()
                    popped = await self._pop_now(names, request)
                    if popped or loop.time() >= end or self._frontend.is_stopping:
                        return popped
                    woken.clear()
                    if not arrived:
                        seconds = min(end, rescan_at) - loop.time()
                        await self._frontend.wait_for(woken.wait(), max(seconds, 0.0))
            finally:
                subscription.waiting.discard(woken)

    @contextmanager
    def _watch(self, topic: str, arrived: set[str], woken: asyncio.Event) -> Iterator[None]:
        """Note the lite topics that get messages, for the length of a block."""
        found = self._store.topology.topic(topic)

        def on_messages(messages: list[StoredMessage]) -> None:
            arrived.update(message.sub_topic.partition(LITE_SEPARATOR)[2] for message in messages)
            woken.set()

        queues = () if found is None else self._store.topology.queues(found).readable
        with ExitStack() as tails:
            for queue_id in queues:
                tails.callback(self._store.messages.tail(topic, queue_id, None, on_messages).close)
            yield

    async def _pop_now(self, names: Iterable[str], request: PopRequest) -> Popped:
        """Pop without waiting, up to the number asked for. A cancelled pop releases its messages."""
        popped: Popped = []
        try:
            await self._pop_each(names, request, popped)
        except BaseException:
            for group, _, deliveries in popped:
                release(self._store, request.topic, group, deliveries)
            raise
        return popped

    async def _pop_each(self, names: Iterable[str], request: PopRequest, popped: Popped) -> None:
        room = request.max_messages
        parent = split_name(request.topic)[1]
        for name in names:
            of = self.group_of(request.group, request.topic, name)
            only = FilterExpression(FilterKind.SUB_TOPIC, f"{parent}{LITE_SEPARATOR}{name}")
            found = await self._store.consumption.pop(
                replace(request, group=of, max_messages=room, wait_ms=0, filter=only, attempt_id="")
            )
            if found:
                popped.append((of, parent, found))
                room -= len(found)
                if room <= 0:
                    break


def _changed(before: set[str], action: int, given: Iterable[str]) -> set[str]:
    if action == v2.PARTIAL_ADD:
        return before | set(given)
    if action == v2.PARTIAL_REMOVE:
        return before - set(given)
    if action == v2.COMPLETE_ADD:
        return set(given)
    if action == v2.COMPLETE_REMOVE:
        return set()
    raise WireError(v2.BAD_REQUEST, f"there is no action {action}")


def _in_turn(subscription: LiteSubscription) -> list[str]:
    """All of them, starting with another one each time, so that none is always the last."""
    names = subscription.lite_topics
    if not names:
        return []
    subscription.turn = (subscription.turn + 1) % len(names)
    return [*names[subscription.turn :], *names[: subscription.turn]]


def _client(client_id: str) -> str:
    return "/" + CLIENT_NAMES.name(client_id)


def _key(client_id: str, group: str, topic: str) -> str:
    namespace, plain = split_name(group)
    return f"{PREFIX}{namespace}/{plain}/{split_name(topic)[1]}{_client(client_id)}"
