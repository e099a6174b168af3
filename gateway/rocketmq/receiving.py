"""ReceiveMessage, AckMessage, ChangeInvisibleDuration, ForwardMessageToDeadLetterQueue: consuming as a group.

A receive is a pop. The request has everything that it needs, and the receipt handle everything that settling needs.
So any gateway answers any of them, whether it has heard of the client or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from entrepot.domain.definitions.consumer_group import MAX_INVISIBLE_SECONDS
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError, raise_if
from entrepot.domain.names import check_same_namespace
from entrepot.domain.ports import PopRequest
from entrepot.gateway.messaging.provenance import consumer_at
from entrepot.gateway.rocketmq.answered import ACKNOWLEDGED, DEAD_LETTERED, RELEASED, Answered
from entrepot.gateway.rocketmq.caller import Caller, Write
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.holding import Holding
from entrepot.gateway.rocketmq.lite import LiteSubscriptions
from entrepot.gateway.rocketmq.names import NAMESPACES, group_of, topic_of
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.delivered import add_delivery, deliver_into
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError, status_of
from entrepot.protocols.rocketmq.filters import filter_of
from entrepot.protocols.rocketmq.names import milliseconds, timestamp

PART: Final = "rocketmq receive"
ANSWER_MS: Final = 500
"""Part of a client's time limit that is left for the answer itself, in milliseconds."""
MAX_ENTRIES: Final = 10_000
"""Entries of one acknowledgement."""
NOTHING: Final = v2.ReceiveMessageResponse(status=v2.Status(code=v2.MESSAGE_NOT_FOUND, message="no new message"))
HAND_OVER: Final = v2.ReceiveMessageResponse(status=OK_STATUS)

Popped = list[tuple[str, str, Sequence[Delivery]]]
"""Deliveries by group, with the parent topic of a lite topic, else ""."""

Settle = Callable[[str, str, Sequence[str]], Awaitable[Sequence[EntrepotError | None]]]


class Receiving:
    """The four calls."""

    def __init__(self, frontend: RocketMqFrontend, holding: Holding, lite: LiteSubscriptions) -> None:
        self._frontend, self._holding, self._lite = frontend, holding, lite
        self._answered = Answered()

    # -- receive -----------------------------------------------------------------------------------------------------

    async def receive(self, question: v2.ReceiveMessageRequest, caller: Caller, write: Write) -> None:
        """Send a status, the messages, and the time of delivery."""
        frontend = self._frontend
        topic, group = topic_of(question.message_queue.topic, is_read=True), group_of(question.group)
        frontend.access.check_consume(caller, topic, group)
        request = self._request(question, caller, topic, group)
        if frontend.store.topology.topic(topic) is None:
            await frontend.topology.ensure_readable(topic)
        counters = frontend.counters
        frontend.check_room_to_wait()
        if question.auto_renew:
            self._holding.seen(caller.identity)
        counters.waiting += 1
        polling = self._holding.begin_receive(caller.identity)
        try:
            popped = await self._popped(request, caller)
        finally:
            counters.waiting -= 1
            self._holding.end_receive(polling)
        if not popped:
            await write(NOTHING)
            await write(self._delivered_now())
            return
        if question.auto_renew:
            self._holding.hold(caller.identity, topic, popped)
        is_sent = False
        try:
            await self._tell(popped, request, caller, write)
            is_sent = True
        finally:
            if not is_sent and not request.attempt_id:
                self._release(request.topic, popped, caller)

    async def _tell(self, popped: Popped, request: PopRequest, caller: Caller, write: Write) -> None:
        frontend = self._frontend
        await write(HAND_OVER)
        for group, parent, deliveries in popped:
            frontend.sender.traffic.count_out(request.topic, group, deliveries, "rocketmq")
            frontend.counters.delivered += len(deliveries)
            encode = partial(_answer, parent=parent, invisible_ms=request.invisible_ms)
            answers = frontend.sender.incidents.encoded(
                PART,
                deliveries,
                encode,
                lambda delivery: delivery.message,
                lambda delivery: self._holding.forget(caller.identity, [delivery.receipt_handle]),
            )
            for answer in answers:
                await write(answer)
        await write(self._delivered_now())

    def _delivered_now(self) -> v2.ReceiveMessageResponse:
        """The time of delivery, which ends the answer."""
        return v2.ReceiveMessageResponse(delivery_timestamp=timestamp(self._frontend.clock.now_ms()))

    def _request(self, question: v2.ReceiveMessageRequest, caller: Caller, topic: str, group: str) -> PopRequest:
        settings = self._frontend.settings
        if question.batch_size < 0:
            raise WireError(v2.BAD_REQUEST, "batch_size is not negative")
        if question.auto_renew:
            invisible_ms: int | None = int(settings.lease_seconds * 1000)
        elif question.HasField("invisible_duration"):
            invisible_ms = _invisible_ms(milliseconds(question.invisible_duration))
        else:
            invisible_ms = None
        wait_ms = int(settings.long_polling_seconds * 1000)
        if question.HasField("long_polling_timeout"):
            wait_ms = milliseconds(question.long_polling_timeout)
            if wait_ms < 0:
                raise WireError(v2.ILLEGAL_POLLING_TIME, "the long polling timeout is not negative")
        if caller.remaining_ms is not None:
            wait_ms = max(min(wait_ms, caller.remaining_ms - ANSWER_MS), 0)
        if self._frontend.is_stopping:
            wait_ms = 0
        known = self._frontend.group_or_by_use(group)
        return PopRequest(
            topic,
            group,
            min(max(question.batch_size, 1), settings.max_receive_messages),
            wait_ms,
            invisible_ms,
            filter_of(question.filter_expression),
            question.attempt_id if known.fifo else "",
            consumer=consumer_at(
                f"RocketMQ client {caller.client_id} from {caller.source}", self._frontend.sender.provenance.gateway
            ),
        )

    async def _popped(self, request: PopRequest, caller: Caller) -> Popped:
        """Pop; return the deliveries by group. Where the client goes meanwhile, its messages are released."""
        lite = await self._lite.subscription(caller.identity, request.group, request.topic)
        if lite is not None:
            return await self._lite.pop(lite, request)
        popped = await self._frontend.store.consumption.pop(request)
        return [(request.group, "", popped)] if popped else []

    def _release(self, topic: str, popped: Popped, caller: Caller) -> None:
        """Release messages whose client went before it had them."""
        for group, _, deliveries in popped:
            self._holding.forget(caller.identity, [delivery.receipt_handle for delivery in deliveries])
            self._frontend.tasks.spawn(self._frontend.release(topic, group, deliveries))

    # -- settle ------------------------------------------------------------------------------------------------------

    async def acknowledge(self, question: v2.AckMessageRequest, caller: Caller) -> v2.AckMessageResponse:
        """Acknowledge messages, durably when this is answered; each has its own outcome."""
        entries = question.entries
        if not entries or len(entries) > MAX_ENTRIES:
            raise WireError(v2.BAD_REQUEST, f"a request has 1 to {MAX_ENTRIES} entries")
        topic, group = self._names(question.topic, question.group, caller)
        by_group: dict[str, list[int]] = {}
        for place, entry in enumerate(entries):
            of = self._lite.group_of(group, topic, entry.lite_topic) if entry.lite_topic else group
            by_group.setdefault(of, []).append(place)
        outcomes: list[EntrepotError | None] = [None] * len(entries)
        for of, places in by_group.items():
            handles = [entries[place].receipt_handle for place in places]
            try:
                found = await self._frontend.store.consumption.acknowledge(topic, of, handles)
            except EntrepotError as refusal:
                if len(by_group) == 1:
                    raise
                found = [refusal.with_traceback(None)] * len(places)
            for place, handle, outcome in zip(places, handles, found, strict=True):
                outcomes[place] = self._or_answered(ACKNOWLEDGED, topic, of, handle, outcome)
        settled = [
            entry.receipt_handle
            for entry, refusal in zip(entries, outcomes, strict=True)
            if refusal is None or refusal.code is Code.INVALID_RECEIPT_HANDLE  # the others will be acknowledged again
        ]
        self._holding.forget(caller.identity, settled)
        return self._acknowledged(entries, outcomes)

    def _acknowledged(
        self, entries: Sequence[v2.AckMessageEntry], outcomes: Sequence[EntrepotError | None]
    ) -> v2.AckMessageResponse:
        answer = v2.AckMessageResponse(status=OK_STATUS)
        for entry, outcome in zip(entries, outcomes, strict=True):
            status = OK_STATUS if outcome is None else status_of(outcome)
            answer.entries.add(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)
        self._frontend.counters.acknowledged += sum(outcome is None for outcome in outcomes)
        codes = {entry.status.code for entry in answer.entries}
        if len(codes) > 1:
            answer.status.CopyFrom(v2.Status(code=v2.MULTIPLE_RESULTS, message="the entries have different outcomes"))
        elif v2.OK not in codes:
            answer.status.CopyFrom(answer.entries[0].status)
        return answer

    async def change(
        self, question: v2.ChangeInvisibleDurationRequest, caller: Caller
    ) -> v2.ChangeInvisibleDurationResponse:
        """Hide a message for another time from now on: longer for a consumer at work, or until the next attempt. The
        handle stays valid until that time is over. With `suspend` the delivery does not count as an attempt."""
        topic, group = self._names(question.topic, question.group, caller)
        group = self._lite.group_of(group, topic, question.lite_topic) if question.lite_topic else group
        wanted_ms = milliseconds(question.invisible_duration)
        if wanted_ms:
            _invisible_ms(wanted_ms)
        [refusal] = await self._frontend.store.consumption.change_invisible_duration(
            topic,
            group,
            [question.receipt_handle],
            wanted_ms,
            release=not wanted_ms,
            suspend=question.suspend,
        )
        if wanted_ms:
            raise_if(refusal)
        else:
            raise_if(self._or_answered(RELEASED, topic, group, question.receipt_handle, refusal))
        self._holding.forget(caller.identity, [question.receipt_handle])
        return v2.ChangeInvisibleDurationResponse(status=OK_STATUS, receipt_handle=question.receipt_handle)

    async def forward(
        self, question: v2.ForwardMessageToDeadLetterQueueRequest, caller: Caller
    ) -> v2.ForwardMessageToDeadLetterQueueResponse:
        """Move a message to its group's dead letters."""
        topic, group = self._names(question.topic, question.group, caller)
        group = self._lite.group_of(group, topic, question.lite_topic) if question.lite_topic else group
        [refusal] = await self._frontend.store.consumption.reject(topic, group, [question.receipt_handle])
        raise_if(self._or_answered(DEAD_LETTERED, topic, group, question.receipt_handle, refusal))
        self._holding.forget(caller.identity, [question.receipt_handle])
        return v2.ForwardMessageToDeadLetterQueueResponse(status=OK_STATUS)

    def _or_answered(
        self, how: str, topic: str, group: str, handle: str, outcome: EntrepotError | None
    ) -> EntrepotError | None:
        """The outcome of a settlement; that of the first time for one that is sent again."""
        if outcome is None:
            self._answered.note(how, topic, group, handle)
        elif outcome.code is Code.INVALID_RECEIPT_HANDLE and self._answered.is_known(how, topic, group, handle):
            return None
        return outcome

    def _names(self, topic: v2.Resource, group: v2.Resource, caller: Caller) -> tuple[str, str]:
        names = topic_of(topic, is_read=True), group_of(group)
        check_same_namespace(*names)
        self._frontend.access.check_consume(caller, *names)
        return names


def _answer(delivery: Delivery, parent: str, invisible_ms: int | None) -> v2.ReceiveMessageResponse:
    answer = v2.ReceiveMessageResponse()
    deliver_into(answer.message, delivery.message, NAMESPACES, parent)
    add_delivery(answer.message.system_properties, delivery, invisible_ms)
    return answer


def _invisible_ms(wanted_ms: int) -> int:
    if not 0 < wanted_ms <= MAX_INVISIBLE_SECONDS * 1000:
        text = f"the invisible duration is more than 0 and at most {MAX_INVISIBLE_SECONDS} s"
        raise WireError(v2.ILLEGAL_INVISIBLE_TIME, text)
    return wanted_ms
