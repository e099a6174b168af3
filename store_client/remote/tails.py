"""Tails over the wire: each is a stream from its broker, opened again at the exact offset after an absence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from entrepot.broker.remoting.link import ClientStream, ConnectionLostError
from entrepot.domain.broker_of_queue import local_queue
from entrepot.domain.callbacks import call_each, hand_over
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import StoredMessage, place_of_message
from entrepot.domain.position import Position, PositionKind
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.message_batch import decode_stored
from entrepot.store_client.remote.asking import Asking
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.cluster import Cluster

log = structlog.get_logger(__name__)
AGAIN_SECONDS = 0.2
CLOCK_SLACK_MS = 1000
"""Largest lag of a broker's clock behind ours."""


class RemoteTail:
    """Implements `domain.ports.Tail`."""

    def __init__(
        self,
        tails: Tails,
        client: BrokerClient,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
        asked_at_ms: int,
    ) -> None:
        self._tails, self._client = tails, client
        self._topic, self._queue_id = topic, queue_id
        self._on_messages = on_messages
        self._asked_at_ms = asked_at_ms
        self._start: int | Position | None = start
        self._next: int | None = start if isinstance(start, int) else None
        self._stream: ClientStream | None = None
        self._source: Asking = client
        self._known_deletion = self._deletion()
        self._is_fresh = True
        self._has_begun = False
        self._when_begun: list[Callable[[], None]] = []
        self._is_closed = False
        self.open()

    @property
    def next_offset(self) -> int:
        return self._next or 0

    @property
    def client(self) -> BrokerClient:
        return self._client

    def when_begun(self, callback: Callable[[], None]) -> None:
        if self._has_begun or not self._client.is_ready or self._is_closed:
            callback()
        else:
            self._when_begun.append(callback)

    def close(self) -> None:
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._tails.forget(self)
        self.begun()

    def begun(self) -> None:
        """Call those that wait for the start; also if it will come later."""
        waiting, self._when_begun = self._when_begun, []
        for fault in call_each(waiting):
            log.error("a callback of a tail's start failed", topic=self._topic, exc_info=fault)

    def _deletion(self) -> int:
        """Return the last deletion of the topic that its broker has told of."""
        return self._client.view.deleted.get(f"topic/{self._topic}", 0)

    def forget_place(self) -> None:
        """Follow the present queue from its start: it is another one."""
        self._next, self._start = None, 0

    def reopen(self, client: BrokerClient) -> None:
        """Go on with a broker that is back, perhaps at another address.  If the topic was deleted meanwhile, one of its
        name is another topic.  The old address's stream may not have ended yet."""
        self._client = client
        if client.has_other_store or self._deletion() > self._known_deletion:
            self.forget_place()
        if self._stream is not None and self._source is not self._tails.source_of(client, self._topic, self._goes_on):
            self._stream.close()
            self._stream = None
        self.open()

    @property
    def _goes_on(self) -> bool:
        """True if the start does not depend on data that a slave may lack."""
        start = self._start
        return self._next is not None or (isinstance(start, Position) and start.kind is PositionKind.EARLIEST)

    def open(self, *, at_master: bool = False) -> None:
        """Open the stream, if its broker or a slave of it is there."""
        if not self._client.is_ready:
            self._pin_start()
        source = self._client if at_master else self._tails.source_of(self._client, self._topic, self._goes_on)
        if self._is_closed or self._stream is not None or not source.is_ready:
            return
        self._source = source
        start = self._start if self._next is None else self._next
        payload = wire.TAIL.encode_arguments(self._topic, local_queue(self._queue_id), start)
        try:
            self._stream = source.link.open_stream(wire.TAIL, payload, self._item, self._ended)
            self._is_fresh = True
        except EntrepotError:
            self._pin_start()  # it is opened when the broker is back

    def _pin_start(self) -> None:
        """Keep the time for a later start: the present end of the queue cannot be asked for later."""
        if self._next is None and self._start is None:
            self._start = Position(PositionKind.TIME, max(self._asked_at_ms - CLOCK_SLACK_MS, 0))

    def _item(self, payload: bytes) -> None:
        assert wire.TAIL.result is not None
        next_offset, batch = wire.TAIL.result.decode(payload)
        if self._is_fresh:
            self._is_fresh, self._known_deletion = False, self._deletion()
        self._next = next_offset
        if not self._has_begun:
            self._has_begun = True
            self.begun()
        messages = decode_stored(batch, self._source.number)
        for message, fault in hand_over(messages, self._on_messages) if messages and not self._is_closed else ():
            place = place_of_message(message)
            log.error("a message could not be handed on, the others are", place=place, exc_info=fault)

    def _ended(self, error: EntrepotError) -> None:
        self._stream = None
        if self._source is not self._client:  # a slave may lack what its master has
            if error.code == Code.TOPIC_NOT_FOUND and not self._is_fresh:  # it followed the topic, which was deleted
                self.forget_place()
            self._tails.loop.call_soon(lambda: self.open(at_master=True))
            return
        if error.code == Code.TOPIC_NOT_FOUND:  # one of its name is another topic
            self.forget_place()
            self._tails.loop.call_later(AGAIN_SECONDS, self.open)
        self._pin_start()
        if not isinstance(error, ConnectionLostError) and error.code != Code.TOPIC_NOT_FOUND:
            log.warning("a tail has ended", topic=self._topic, queue=self._queue_id, problem=error.message)
        self.begun()


class Tails:
    """All tails, so that they go on when their brokers come back."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._open: dict[int, set[RemoteTail]] = {}
        self.loop = asyncio.get_running_loop()
        cluster.ready_watchers.append(self._ready_changed)
        cluster.slaves.watchers.append(self._slave_is_there)

    def source_of(self, client: BrokerClient, topic: str, goes_on: bool) -> Asking:
        """Return the broker, or a slave of it, for a tail.  `goes_on`: the tail does not begin at a slave's end."""
        slaves = self._cluster.slaves
        is_for_slaves = goes_on and (slaves.may_know(topic) or not client.is_ready)
        return (slaves.nearest(client) if is_for_slaves else None) or client

    def tail(
        self,
        topic: str,
        queue_id: int,
        start: int | Position | None,
        on_messages: Callable[[list[StoredMessage]], None],
    ) -> RemoteTail:
        client = self._cluster.of_queue(topic, queue_id)
        definition = self._cluster.topics.get(topic)
        if definition is None or queue_id not in self._cluster.queues(definition).readable:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue {queue_id} of topic {topic!r}")
        tail = RemoteTail(self, client, topic, queue_id, start, on_messages, self._clock.now_ms())
        self._open.setdefault(client.number, set()).add(tail)
        return tail

    def forget(self, tail: RemoteTail) -> None:
        self._open.get(tail.client.number, set()).discard(tail)

    def _slave_is_there(self, name: str, offer: wire.ReadOffer) -> None:
        """Use a slave that answers reads, or leave one that does not keep up."""
        for number, tails in tuple(self._open.items()):
            client = self._cluster.of_number(number)
            if client is None or client.name != name:
                continue
            for tail in tuple(tails):
                if not client.is_ready:
                    tail.open()
                elif not offer.keeps_up:
                    tail.reopen(client)

    def _ready_changed(self, client: BrokerClient, is_ready: bool) -> None:
        for tail in tuple(self._open.get(client.number, ())):
            if is_ready:
                tail.reopen(client)
            else:
                tail.begun()
