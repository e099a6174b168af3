"""SendMessage and RecallMessage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from entrepot.domain.access.model import Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.recall_handle import RecallHandle
from entrepot.gateway.messaging.test_message import RocketMqTestMessage
from entrepot.gateway.rocketmq.answered import RECALLED, Answered
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.names import plain, topic_of
from entrepot.gateway.rocketmq.routes import accepted_types
from entrepot.gateway.rocketmq.transactions import transaction_id_for
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.delivered import message_id_text
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError, status_of
from entrepot.protocols.rocketmq.mapping import domain_id
from entrepot.protocols.rocketmq.names import timestamp
from entrepot.protocols.rocketmq.published import published

TEST_CLIENT: Final = "administration"
"""Client id of test messages."""
MAX_MESSAGES: Final = 10_000
"""Messages of one request."""


class Sending:
    """Messages in. An answer has an entry for each, which is OK when the message is durable."""

    def __init__(self, frontend: RocketMqFrontend) -> None:
        self._frontend = frontend
        self._answered = Answered()

    async def send(self, question: v2.SendMessageRequest, caller: Caller) -> v2.SendMessageResponse:
        """Send messages of one topic, each with its own outcome. One that is not to be taken refuses them all, before
        anything is stored, as at RocketMQ's proxy."""
        frontend, wires = self._frontend, question.messages
        if not wires or len(wires) > MAX_MESSAGES:
            raise WireError(v2.MESSAGE_CORRUPTED, f"a request has 1 to {MAX_MESSAGES} messages")
        resource = wires[0].topic
        if any(wire.topic != resource for wire in wires[1:]):
            raise WireError(v2.MESSAGE_CORRUPTED, "the messages of one request are of one topic")
        if frontend.sender.backlogged and frontend.store.condition.failure is None:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too much is waiting for the disk: retry later")
        topic = topic_of(resource)
        frontend.access.check_publish(caller, topic, "")
        answer, name = v2.SendMessageResponse(status=OK_STATUS), plain(topic)
        accepted = accepted_types(frontend.store.topology.topic(topic))
        taken: list[tuple[v2.SendResultEntry, Message]] = []
        halves: list[tuple[v2.SendResultEntry, Message]] = []
        for wire in wires:
            entry = answer.entries.add(message_id=wire.system_properties.message_id)
            found = published(wire, topic, frontend.limits, accepted)
            if found.message.sub_topic != name:
                frontend.access.check_publish(caller, topic, found.message.sub_topic)
            if not found.message.message_id:
                found.message.message_id = frontend.sender.new_message_id()
                entry.message_id = message_id_text(found.message.message_id)
            if found.kind == v2.TRANSACTION:
                entry.transaction_id = transaction_id_for(found.message.sub_topic, name, caller.principal)
                found.message.system = {
                    **found.message.system,
                    SystemProperty.TRANSACTION_ID: entry.transaction_id,
                }
                halves.append((entry, found.message))
            else:
                taken.append((entry, found.message))
        if (provenance := frontend.sender.provenance).topics:
            messages = [message for _, message in [*taken, *halves]]
            provenance.mark(messages, "rocketmq", caller.client_id, caller.principal)
        if taken:
            messages = [message for _, message in taken]
            _tell(taken, await frontend.sender.send_and_wait(messages))
        if halves:
            messages = [message for _, message in halves]
            _tell(halves, await frontend.sender.send_half_and_wait(messages))
        frontend.counters.published += len(wires)
        _summarise(answer)
        return answer

    async def send_test_message(self, given: RocketMqTestMessage, principal: Principal) -> bytes:
        """Send one message as a client of this listener would, and return its id.  Raises its refusal."""
        system = v2.SystemProperties(keys=given.keys)
        for name in ("tag", "message_group"):
            if getattr(given, name):
                setattr(system, name, getattr(given, name))
        if given.deliver_at_ms is not None:
            system.delivery_timestamp.CopyFrom(timestamp(given.deliver_at_ms))
        resource = v2.Resource(name=given.topic, resource_namespace=given.namespace)
        wire = v2.Message(
            topic=resource, body=given.body, user_properties=dict(given.properties), system_properties=system
        )
        caller = Caller(TEST_CLIENT, principal, principal.source)
        answer = await self.send(v2.SendMessageRequest(messages=[wire]), caller)
        [entry] = answer.entries
        if entry.status.code != v2.OK:
            raise WireError(entry.status.code, entry.status.message)
        return domain_id(entry.message_id)

    async def recall(self, question: v2.RecallMessageRequest, caller: Caller) -> v2.RecallMessageResponse:
        """Recall a scheduled message, sent through any gateway."""
        topic = topic_of(question.topic)
        self._frontend.access.check_move(caller, topic)
        handle = RecallHandle.decode(question.recall_handle)
        if handle.topic != topic:
            raise EntrepotError(Code.BAD_REQUEST, "the recall handle is of another topic")
        try:
            await self._frontend.store.timers.recall(topic, handle.message_id, handle.deliver_at_ms)
        except EntrepotError as refusal:
            if refusal.code is not Code.OFFSET_NOT_FOUND:
                raise
            if not self._answered.is_known(RECALLED, topic, "", question.recall_handle):
                # clients take MESSAGE_NOT_FOUND for a success
                raise WireError(v2.NOT_FOUND, "the message does not wait (any more)") from None
        self._answered.note(RECALLED, topic, "", question.recall_handle)
        return v2.RecallMessageResponse(status=OK_STATUS, message_id=message_id_text(handle.message_id))


def _tell(sent: Sequence[tuple[v2.SendResultEntry, Message]], refusals: Sequence[EntrepotError | None] | None) -> None:
    for place, (entry, message) in enumerate(sent):
        refusal = None if refusals is None else refusals[place]
        if refusal is not None:
            entry.status.CopyFrom(status_of(refusal))
            entry.transaction_id = ""
            continue
        entry.status.CopyFrom(OK_STATUS)
        deliver_at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
        if deliver_at_ms is not None:
            entry.recall_handle = RecallHandle(message.topic, message.message_id, deliver_at_ms).encode()


def _summarise(answer: v2.SendMessageResponse) -> None:
    """Set the status of all: theirs if they agree."""
    first = answer.entries[0].status
    if len(answer.entries) == 1 or all(entry.status.code == first.code for entry in answer.entries):
        if first.code != v2.OK:
            answer.status.CopyFrom(first)
    else:
        answer.status.CopyFrom(v2.Status(code=v2.MULTIPLE_RESULTS, message="the entries have different outcomes"))
