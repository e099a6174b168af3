"""A small RocketMQ 5 cluster for tests: the published gRPC service over memory stores, one for each broker.

It is written from the protocol and knows nothing of our client: it keeps messages as their producer wrote them.  Like
the real proxies it wants a client id, answers consumers only whose Settings it has, checks message types, refuses
empty bodies and RocketMQ's own property names, adds a property of its own to messages of a group, and gives a changed
delivery a new receipt handle.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import grpc
import grpc.aio
from google.protobuf.timestamp_pb2 import Timestamp

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import Permission, Topic
from entrepot.domain.transaction import TransactionEnd
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.support.stores.model_store import MemoryStore

SERVICE = "apache.rocketmq.v2.MessagingService"
OK = v2.Status(code=v2.OK, message="OK")
WIRE = "wire"
ANY_TYPE = (v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION)
_SIGNATURE = re.compile(r"MQv2-HMAC-SHA1 Credential=([^,]*), SignedHeaders=x-mq-date-time, Signature=([0-9a-fA-F]+)")

Handler = Callable[[Any, grpc.aio.ServicerContext], Awaitable[Any]]


class Refused(Exception):
    def __init__(self, code: Any, text: str = "refused") -> None:
        super().__init__(text)
        self.status = v2.Status(code=code, message=text)


def status_of(error: EntrepotError) -> v2.Status:
    """Numbers are the same where RocketMQ has one."""
    code: Any = int(error.code) if int(error.code) in v2.Code.values() else v2.INTERNAL_ERROR
    return v2.Status(code=code, message=error.message)


@dataclass
class Client:
    """A client by its id: its Settings, and how to tell it something."""

    settings: v2.Settings | None = None
    commands: asyncio.Queue[v2.TelemetryCommand] = field(default_factory=asyncio.Queue)
    heartbeats: int = 0


@dataclass
class Hand:
    """What a receipt handle of the cluster stands for."""

    broker: str
    topic: str
    group: str
    handle: str


class RocketMqServer:
    """`brokers` by name.  `faults`: what happens to the next calls of a name: a gRPC status to abort with after the
    work is done, a `v2` code to refuse with, or "hang"."""

    def __init__(
        self, clock: Clock, brokers: int = 1, *, accounts: dict[str, str] | None = None, **limits: Any
    ) -> None:
        self.clock = clock
        self.brokers = {f"broker-{i}": MemoryStore(clock, **limits) for i in range(brokers)}
        self.accepts: dict[str, tuple[Any, ...]] = {}
        self.clients: dict[str, Client] = defaultdict(Client)
        self.accounts = accounts
        self.faults: dict[str, list[Any]] = defaultdict(list)
        self.calls: list[tuple[str, Any]] = []
        self.terminated: list[str] = []
        self.hands: dict[str, Hand] = {}
        self.port = 0
        self.takes_wishes = False
        """Whether a message goes to the queue that it names; the real proxies do not ask."""
        self._turn = 0
        self._server: Any = None

    async def start(self) -> None:
        """Listen on the port it had before, else on a free one."""
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers([self._handlers()])
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def close(self) -> None:
        await self.stop()
        for broker in self.brokers.values():
            await broker.close()

    def asked(self, name: str) -> list[Any]:
        """The questions of all calls of a name."""
        return [question for call, question in self.calls if call == name]

    # -- what an operator does ---------------------------------------------------------------------------------------

    async def put_topic(self, topic: Topic, accepts: tuple[Any, ...] = ANY_TYPE) -> None:
        self.accepts[topic.name] = accepts
        for broker in self.brokers.values():
            await broker.topology.put_topic(topic)

    async def put_group(self, group: ConsumerGroup) -> None:
        for broker in self.brokers.values():
            await broker.topology.put_group(group)

    async def check_transactions(self) -> None:
        """Ask producers after the half messages that are due."""
        for broker in self.brokers.values():
            for half in await broker.transactions.take_checks([topic.name for topic in broker.topology.topics()], 100):
                check = v2.RecoverOrphanedTransactionCommand(
                    message=self._as_sent(half), transaction_id=half.system_text(SystemProperty.TRANSACTION_ID) or ""
                )
                for client in self.clients.values():
                    if client.settings and half.topic in {t.name for t in client.settings.publishing.topics}:
                        command = v2.TelemetryCommand(recover_orphaned_transaction_command=check)
                        client.commands.put_nowait(command)

    # -- the service -------------------------------------------------------------------------------------------------

    def _handlers(self) -> Any:
        unary: dict[str, tuple[Any, Any, Handler]] = {
            "QueryRoute": (v2.QueryRouteRequest, v2.QueryRouteResponse, self._query_route),
            "Heartbeat": (v2.HeartbeatRequest, v2.HeartbeatResponse, self._heartbeat),
            "SendMessage": (v2.SendMessageRequest, v2.SendMessageResponse, self._send),
            "AckMessage": (v2.AckMessageRequest, v2.AckMessageResponse, self._ack),
            "ForwardMessageToDeadLetterQueue": (
                v2.ForwardMessageToDeadLetterQueueRequest,
                v2.ForwardMessageToDeadLetterQueueResponse,
                self._forward,
            ),
            "ChangeInvisibleDuration": (
                v2.ChangeInvisibleDurationRequest,
                v2.ChangeInvisibleDurationResponse,
                self._change,
            ),
            "QueryOffset": (v2.QueryOffsetRequest, v2.QueryOffsetResponse, self._query_offset),
            "GetOffset": (v2.GetOffsetRequest, v2.GetOffsetResponse, self._get_offset),
            "UpdateOffset": (v2.UpdateOffsetRequest, v2.UpdateOffsetResponse, self._update_offset),
            "EndTransaction": (v2.EndTransactionRequest, v2.EndTransactionResponse, self._end_transaction),
            "RecallMessage": (v2.RecallMessageRequest, v2.RecallMessageResponse, self._recall),
            "NotifyClientTermination": (
                v2.NotifyClientTerminationRequest,
                v2.NotifyClientTerminationResponse,
                self._terminate,
            ),
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                self._unary(name, response, work), question.FromString, response.SerializeToString
            )
            for name, (question, response, work) in unary.items()
        }
        for name, question, response, work in (
            ("ReceiveMessage", v2.ReceiveMessageRequest, v2.ReceiveMessageResponse, self._receive),
            ("PullMessage", v2.PullMessageRequest, v2.PullMessageResponse, self._pull),
        ):
            methods[name] = grpc.unary_stream_rpc_method_handler(
                self._stream(name, response, work), question.FromString, response.SerializeToString
            )
        methods["Telemetry"] = grpc.stream_stream_rpc_method_handler(
            self._telemetry, v2.TelemetryCommand.FromString, v2.TelemetryCommand.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def _unary(self, name: str, response: Any, work: Handler) -> Any:
        async def handle(question: Any, context: Any) -> Any:
            self.calls.append((name, question))
            fault = self.faults[name].pop(0) if self.faults[name] else None
            try:
                self._check_client(context)
                if isinstance(fault, int):
                    raise Refused(fault)
                if fault == "hang":
                    await asyncio.Event().wait()
                answer = await work(question, context)
            except Refused as refused:
                return response(status=refused.status)
            except EntrepotError as error:
                return response(status=status_of(error))
            if fault is not None:
                await context.abort(fault, "the connection broke")
            return answer

        return handle

    def _stream(self, name: str, response: Any, work: Any) -> Any:
        async def handle(question: Any, context: Any) -> AsyncIterator[Any]:
            self.calls.append((name, question))
            fault = self.faults[name].pop(0) if self.faults[name] else None
            try:
                self._check_client(context)
                if isinstance(fault, int):
                    raise Refused(fault)
                if fault == "hang":
                    await asyncio.Event().wait()
                if fault is not None:
                    await context.abort(fault, "the connection broke")
                async for answer in work(question, context):
                    yield answer
            except Refused as refused:
                yield response(status=refused.status)
            except EntrepotError as error:
                yield response(status=status_of(error))

        return handle

    def _check_client(self, context: Any) -> Client:
        headers = dict(context.invocation_metadata())
        if not headers.get("x-mq-client-id"):
            raise Refused(v2.CLIENT_ID_REQUIRED)
        if self.accounts is not None:
            found = _SIGNATURE.fullmatch(headers.get("authorization", ""))
            secret = self.accounts.get(found[1]) if found else None
            date_time = headers.get("x-mq-date-time", "")
            if found is None or secret is None:
                raise Refused(v2.UNAUTHORIZED, "no such account")
            if hmac.new(secret.encode(), date_time.encode(), hashlib.sha1).hexdigest() != found[2].lower():
                raise Refused(v2.UNAUTHORIZED, "wrong signature")
        return self.clients[headers["x-mq-client-id"]]

    async def _telemetry(self, questions: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        client = self._check_client(context)

        async def listen() -> None:
            async for command in questions:
                if command.HasField("settings"):
                    client.settings = command.settings
                    client.commands.put_nowait(v2.TelemetryCommand(status=OK, settings=command.settings))

        listening = asyncio.create_task(listen())
        try:
            while True:
                yield await client.commands.get()
        finally:
            listening.cancel()

    async def _heartbeat(self, question: Any, context: Any) -> Any:
        client = self._check_client(context)
        if client.settings is None:
            raise Refused(v2.UNRECOGNIZED_CLIENT_TYPE)
        client.heartbeats += 1
        return v2.HeartbeatResponse(status=OK)

    async def _terminate(self, question: Any, context: Any) -> Any:
        client_id = dict(context.invocation_metadata())["x-mq-client-id"]
        self.terminated.append(client_id)
        self.clients[client_id].settings = None
        return v2.NotifyClientTerminationResponse(status=OK)

    async def _query_route(self, question: Any, context: Any) -> Any:
        name = _name(question.topic)
        found = []
        for broker_name, broker in self.brokers.items():
            topic = broker.topology.topic(name)
            if topic is None:
                raise Refused(v2.TOPIC_NOT_FOUND, f"no topic {name}")
            endpoints = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host="127.0.0.1", port=self.port)])
            found += [
                v2.MessageQueue(
                    topic=question.topic,
                    id=queue_id,
                    permission=_PERMISSIONS[topic.permission],
                    broker=v2.Broker(name=broker_name, id=0, endpoints=endpoints),
                    accept_message_types=self.accepts.get(name, ANY_TYPE),
                )
                for queue_id in range(topic.queues)
            ]
        return v2.QueryRouteResponse(status=OK, message_queues=found)

    # -- producing ---------------------------------------------------------------------------------------------------

    async def _send(self, question: Any, context: Any) -> Any:
        if len({wire.topic.name for wire in question.messages}) != 1:
            raise Refused(v2.BAD_REQUEST, "messages of one topic")
        entries = [await self._send_one(wire, context) for wire in question.messages]
        codes = {entry.status.code for entry in entries}
        status = entries[0].status if len(codes) == 1 else v2.Status(code=v2.MULTIPLE_RESULTS)
        return v2.SendMessageResponse(status=status, entries=entries)

    async def _send_one(self, wire: Any, context: Any) -> Any:
        try:
            return await self._store(wire)
        except Refused as refused:
            return v2.SendResultEntry(status=refused.status, message_id=wire.system_properties.message_id)
        except EntrepotError as error:
            return v2.SendResultEntry(status=status_of(error), message_id=wire.system_properties.message_id)

    async def _store(self, wire: Any) -> Any:
        system, name = wire.system_properties, _name(wire.topic)
        self._check_message(wire, name)
        broker_name, queue_id = self._place(name, system.message_group)
        if self.takes_wishes:
            queue_id = system.queue_id
        broker = self.brokers[broker_name]
        own: dict[str, str | bytes] = {WIRE: wire.SerializeToString()}
        answer = v2.SendResultEntry(status=OK, message_id=system.message_id)
        if system.message_type == v2.DELAY:
            due = system.delivery_timestamp.seconds * 1000 + system.delivery_timestamp.nanos // 1_000_000
            own[SystemProperty.DELIVER_AT_MS] = due
            answer.recall_handle = f"{broker_name} {name} {system.message_id} {due}"
        if system.message_type == v2.TRANSACTION:
            answer.transaction_id = secrets.token_hex(8)
            own[SystemProperty.TRANSACTION_ID] = answer.transaction_id
        message = Message(
            name,
            wire.body,
            queue_id=queue_id,
            tag=system.tag,
            keys=tuple(system.keys),
            message_group=system.message_group,
            message_id=system.message_id.encode(),
            properties=tuple(wire.user_properties.items()),
            system=own,
        )
        append = broker.transactions.append_half if system.message_type == v2.TRANSACTION else broker.messages.append
        confirmation = append([message])
        if confirmation.refusals is not None and confirmation.refusals[0] is not None:
            raise confirmation.refusals[0]
        done = asyncio.get_running_loop().create_future()
        confirmation.when_settled(done.set_result)
        await done
        return answer

    def _check_message(self, wire: Any, name: str) -> None:
        system = wire.system_properties
        if name not in self.accepts:
            raise Refused(v2.TOPIC_NOT_FOUND, f"no topic {name}")
        if not wire.body:
            raise Refused(v2.MESSAGE_BODY_EMPTY)
        if not system.message_id:
            raise Refused(v2.ILLEGAL_MESSAGE_ID)
        if {"KEYS", "TAGS", "UNIQ_KEY"} & set(wire.user_properties):
            raise Refused(v2.ILLEGAL_MESSAGE_PROPERTY_KEY)
        deduced = v2.NORMAL
        if system.message_type == v2.TRANSACTION:
            deduced = v2.TRANSACTION
        elif system.HasField("delivery_timestamp"):
            deduced = v2.DELAY
        elif system.message_group:
            deduced = v2.FIFO
        elif system.HasField("priority"):
            deduced = v2.PRIORITY
        if deduced != system.message_type or deduced not in self.accepts[name]:
            raise Refused(v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, "the topic does not take this type")

    def _place(self, name: str, group: str) -> tuple[str, int]:
        places = [(b, q) for b, s in self.brokers.items() for q in range(s.topology.topic(name).queues)]  # type: ignore[union-attr]
        if group:
            return places[crc32(group.encode()) % len(places)]
        self._turn += 1
        return places[self._turn % len(places)]

    async def _recall(self, question: Any, context: Any) -> Any:
        broker, name, message_id, due = question.recall_handle.split(" ")
        if int(due) <= self.clock.now_ms():
            raise Refused(v2.INTERNAL_SERVER_ERROR, "recall failed, timestamp invalid")
        try:
            await self.brokers[broker].timers.recall(name, message_id.encode(), int(due))
        except EntrepotError as error:
            raise Refused(v2.MESSAGE_NOT_FOUND) from error
        return v2.RecallMessageResponse(status=OK, message_id=message_id)

    async def _end_transaction(self, question: Any, context: Any) -> Any:
        end = TransactionEnd(_name(question.topic), question.transaction_id, question.resolution == v2.COMMIT)
        for broker in self.brokers.values():
            if (await broker.transactions.end_transactions([end]))[0] is None:
                return v2.EndTransactionResponse(status=OK)
        raise Refused(v2.INVALID_TRANSACTION_ID)

    # -- consuming ---------------------------------------------------------------------------------------------------

    async def _receive(self, question: Any, context: Any) -> AsyncIterator[Any]:
        client = self._check_client(context)
        if client.settings is None or client.settings.subscription.group.name != question.group.name:
            raise Refused(v2.UNRECOGNIZED_CLIENT_TYPE)
        topic, group = _name(question.message_queue.topic), _name(question.group)
        broker_name = question.message_queue.broker.name
        deliveries = await self.brokers[broker_name].consumption.pop(
            PopRequest(
                topic,
                group,
                question.batch_size,
                _ms(question.long_polling_timeout),
                _ms(question.invisible_duration),
                _filter(question.filter_expression),
                question.attempt_id,
            )
        )
        if not deliveries:
            raise Refused(v2.MESSAGE_NOT_FOUND, "no new message")
        yield v2.ReceiveMessageResponse(status=OK)
        for delivery in deliveries:
            text = self._mint(Hand(broker_name, topic, group, delivery.receipt_handle))
            wire = self._as_stored(delivery.message)
            wire.system_properties.receipt_handle = text
            wire.system_properties.delivery_attempt = delivery.attempt
            yield v2.ReceiveMessageResponse(message=wire)
        yield v2.ReceiveMessageResponse(delivery_timestamp=Timestamp(seconds=self.clock.now_ms() // 1000))

    def _mint(self, hand: Hand) -> str:
        text = secrets.token_hex(8)
        self.hands[text] = hand
        return text

    def _as_sent(self, message: StoredMessage) -> Any:
        return v2.Message.FromString(message.system[WIRE])  # type: ignore[arg-type]

    def _as_stored(self, message: StoredMessage) -> Any:
        wire = self._as_sent(message)
        wire.topic.name = message.topic.rpartition("/")[2]
        system = wire.system_properties
        system.queue_id = message.queue_id
        system.queue_offset = message.queue_offset
        if system.message_group:
            wire.user_properties["__SHARDINGKEY"] = system.message_group
        system.store_timestamp.seconds, rest = divmod(message.store_time_ms, 1000)
        system.store_timestamp.nanos = rest * 1_000_000
        system.body_digest.type = v2.MD5
        system.body_digest.checksum = hashlib.md5(wire.body).hexdigest().upper()
        if (topic := message.system_text(SystemProperty.DEAD_LETTER_TOPIC)) is not None:
            system.dead_letter_queue.topic = topic
            system.dead_letter_queue.message_id = system.message_id
        return wire

    def _hand(self, question: Any, text: str) -> Hand:
        hand = self.hands.get(text)
        if hand is None or (hand.topic, hand.group) != (_name(question.topic), _name(question.group)):
            raise Refused(v2.INVALID_RECEIPT_HANDLE)
        return hand

    async def _ack(self, question: Any, context: Any) -> Any:
        entries = []
        for entry in question.entries:
            status = OK
            try:
                hand = self._hand(question, entry.receipt_handle)
                [refusal] = await self.brokers[hand.broker].consumption.acknowledge(
                    hand.topic, hand.group, [hand.handle]
                )
                if refusal is not None:
                    status = status_of(refusal)
            except Refused as refused:
                status = refused.status
            entries.append(
                v2.AckMessageResultEntry(
                    message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
                )
            )
        codes = {entry.status.code for entry in entries}
        status = entries[0].status if len(codes) == 1 else v2.Status(code=v2.MULTIPLE_RESULTS)
        return v2.AckMessageResponse(status=status, entries=entries)

    async def _change(self, question: Any, context: Any) -> Any:
        hand = self._hand(question, question.receipt_handle)
        [refusal] = await self.brokers[hand.broker].consumption.change_invisible_duration(
            hand.topic,
            hand.group,
            [hand.handle],
            _ms(question.invisible_duration),
            release=False,
            suspend=question.suspend,
        )
        if refusal is not None:
            raise refusal
        del self.hands[question.receipt_handle]
        return v2.ChangeInvisibleDurationResponse(status=OK, receipt_handle=self._mint(hand))

    async def _forward(self, question: Any, context: Any) -> Any:
        hand = self._hand(question, question.receipt_handle)
        [refusal] = await self.brokers[hand.broker].consumption.reject(hand.topic, hand.group, [hand.handle])
        if refusal is not None:
            raise refusal
        return v2.ForwardMessageToDeadLetterQueueResponse(status=OK)

    # -- offsets -----------------------------------------------------------------------------------------------------

    def _queue(self, question: Any) -> tuple[MemoryStore, str, int]:
        queue = question.message_queue
        return self.brokers[queue.broker.name], _name(queue.topic), queue.id

    async def _pull(self, question: Any, context: Any) -> AsyncIterator[Any]:
        broker, topic, queue_id = self._queue(question)
        wanted = _filter(question.filter_expression)
        grown = asyncio.Event()
        tail = broker.messages.tail(topic, queue_id, None, lambda messages: grown.set())
        try:
            pulled = await broker.messages.pull(topic, queue_id, question.offset, question.batch_size, wanted)
            if not pulled.messages and (wait_ms := _ms(question.long_polling_timeout)):
                async with asyncio.timeout(wait_ms / 1000):
                    await grown.wait()
                pulled = await broker.messages.pull(topic, queue_id, question.offset, question.batch_size, wanted)
        except TimeoutError:
            pass
        finally:
            tail.close()
        yield v2.PullMessageResponse(status=OK if pulled.messages else v2.Status(code=v2.MESSAGE_NOT_FOUND))
        for message in pulled.messages:
            yield v2.PullMessageResponse(message=self._as_stored(message))
        yield v2.PullMessageResponse(next_offset=pulled.next_offset)

    async def _query_offset(self, question: Any, context: Any) -> Any:
        broker, topic, queue_id = self._queue(question)
        position = EARLIEST_POSITION if question.query_offset_policy == v2.BEGINNING else LATEST_POSITION
        if question.query_offset_policy == v2.TIMESTAMP:
            at = question.timestamp
            position = Position(PositionKind.TIME, at.seconds * 1000 + at.nanos // 1_000_000)
        return v2.QueryOffsetResponse(status=OK, offset=await broker.messages.offset_at(topic, queue_id, position))

    async def _get_offset(self, question: Any, context: Any) -> Any:
        broker, topic, queue_id = self._queue(question)
        if broker.topology.group(_name(question.group)) is not None:
            for progress in (await broker.topology.group_status(_name(question.group))).progress:
                if (progress.topic, progress.queue_id) == (topic, queue_id):
                    return v2.GetOffsetResponse(status=OK, offset=progress.committed_offset)
        raise EntrepotError(Code.OFFSET_NOT_FOUND, "no offset of that group")

    async def _update_offset(self, question: Any, context: Any) -> Any:
        broker, topic, queue_id = self._queue(question)
        position = Position(PositionKind.OFFSET, question.offset)
        await broker.consumption.reset_group(_name(question.group), topic, position, queue_id)
        return v2.UpdateOffsetResponse(status=OK)


_PERMISSIONS = {
    Permission.NONE: v2.NONE,
    Permission.READ: v2.READ,
    Permission.WRITE: v2.WRITE,
    Permission.READ_WRITE: v2.READ_WRITE,
}


def _name(resource: Any) -> str:
    return f"{resource.resource_namespace}/{resource.name}" if resource.resource_namespace else resource.name


def _ms(duration: Any) -> int:
    return duration.seconds * 1000 + duration.nanos // 1_000_000


def _filter(expression: Any) -> FilterExpression:
    return FilterExpression(FilterKind.SQL92 if expression.type == v2.SQL else FilterKind.TAG, expression.expression)
