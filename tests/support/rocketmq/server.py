"""A small RocketMQ cluster for tests: name server and brokers of the remoting protocol, each broker a memory store.

It is written from the protocol, and from what RocketMQ 5.5.0 was seen to answer.  Acknowledgements of what is settled
are answered like others, and a refused message refuses its batch.  An empty body is an error of the broker, properties
without a value vanish, and a message that comes again has its receipt with it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64decode, urlsafe_b64decode
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from entrepot.domain.clock import Clock
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.names import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    dead_letter_topic,
    is_retry_topic,
    retried_topic,
    retry_group,
    split_name,
)
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import EARLIEST_POSITION, LATEST_POSITION, Position, PositionKind
from entrepot.domain.topic import Permission, Topic, TopicType
from entrepot.domain.transaction import TransactionEnd
from entrepot.protocols.rocketmq.remoting.frames import Frame, FrameReader, encode
from entrepot.protocols.rocketmq.remoting.message_ids import RecordPlace, offset_id
from entrepot.protocols.rocketmq.remoting.property_text import decode as properties_of
from entrepot.protocols.rocketmq.remoting.records import Record, decode_batch, encode_record
from entrepot.protocols.rocketmq.remoting.signing import SIGNATURE, signature_of
from tests.support.stores.model_store import MemoryStore

MAX_BODY: Final = 4 << 20
MAX_PROPERTIES: Final = 32_767
_PERMISSIONS: Final = {Permission.NONE: 0, Permission.WRITE: 2, Permission.READ: 4, Permission.READ_WRITE: 6}
_OF_BITS: Final = {bits: permission for permission, bits in _PERMISSIONS.items()}
_TEXT, _BORN_MS, _RECONSUMED = "wire_properties", "wire_born", "wire_reconsumed"
Place = tuple[str, str, int, int]


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, remark: str = "refused", fields: dict[str, Any] | None = None) -> None:
        super().__init__(remark)
        self.code, self.remark, self.fields = code, remark, fields or {}


@dataclass
class Popped:
    """One delivery: its receipt handle at the store."""

    group: str
    topic: str
    handle: str
    unique_key: str = ""


@dataclass
class Broker:
    """A broker: its store, its port, and what it has given away."""

    name: str
    store: MemoryStore
    port: int = 0
    popped: dict[Place, Popped] = field(default_factory=dict)
    halves: dict[int, tuple[str, str]] = field(default_factory=dict)
    listener: Any = None
    producers: set[asyncio.StreamWriter] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)
    begun: set[tuple[str, str]] = field(default_factory=set)
    timer_log: list[Record] = field(default_factory=list)
    """What was timed, and the marks of recalls: a real broker keeps both for days."""
    retry_topics: set[str] = field(default_factory=set)
    groups_made: set[str] = field(default_factory=set)
    """Names that brokers take for groups, and that no store knows."""
    writers: set[asyncio.StreamWriter] = field(default_factory=set)
    is_away: bool = False
    has_master: bool = True
    """False: a slave alone is left, at its address."""


class RocketMqServer:
    """`brokers` by name.  `faults`: what happens to the next requests of a code: a code to refuse with, "hang", "break"
    (the connection ends after the work is done) or "early" (before it).  `accounts`: secrets by access key."""

    def __init__(
        self,
        clock: Clock,
        brokers: int = 1,
        *,
        accounts: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        **limits: Any,
    ) -> None:
        self.clock = clock
        self.at = {f"broker-{i}": Broker(f"broker-{i}", MemoryStore(clock, **limits)) for i in range(brokers)}
        self.accounts = accounts
        self._tls = tls
        self.faults: dict[int, list[Any]] = defaultdict(list)
        self.calls: list[tuple[int, Frame]] = []
        self.port = 0
        self.takes_mixed = True
        self.users: list[dict[str, Any]] | None = None
        """What brokers list of users and their rights; None: they keep none."""
        self.acls: list[dict[str, Any]] = []
        self.configs: dict[str, dict[str, Any]] = {}
        """Further fields of topics and groups in the brokers' tables, by RocketMQ's names."""
        self._name_server: Any = None
        self._pops = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def brokers(self) -> dict[str, MemoryStore]:
        return {name: broker.store for name, broker in self.at.items()}

    async def start(self) -> None:
        """Listen on the ports it had before, else on free ones."""
        self._name_server = await asyncio.start_server(self._served(None), "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._name_server.sockets[0].getsockname()[1]
        for broker in self.at.values():
            await self._listen(broker)

    async def _listen(self, broker: Broker) -> None:
        broker.listener = await asyncio.start_server(self._served(broker), "127.0.0.1", broker.port, ssl=self._tls)
        broker.port = broker.listener.sockets[0].getsockname()[1]

    async def stop_broker(self, name: str) -> None:
        """End one broker but its store; the name server forgets it at once."""
        broker = self.at[name]
        broker.is_away = True
        broker.listener.close()
        for writer in tuple(broker.writers):
            writer.transport.abort()

    async def start_broker(self, name: str) -> None:
        """Have a broker listen on its port again."""
        broker = self.at[name]
        broker.listener = await asyncio.start_server(self._served(broker), "127.0.0.1", broker.port, ssl=self._tls)
        broker.is_away = False

    async def stop(self) -> None:
        """End everything but the stores."""
        for listener in (self._name_server, *(broker.listener for broker in self.at.values())):
            listener.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def close(self) -> None:
        await self.stop()
        for broker in self.at.values():
            await broker.store.close()

    def asked(self, code: int) -> list[Frame]:
        """All requests of a code."""
        return [request for each, request in self.calls if each == code]

    # -- what happens to brokers -------------------------------------------------------------------------------------

    async def join(self, name: str) -> Broker:
        """Have one more broker, without topics."""
        broker = self.at[name] = Broker(name, MemoryStore(self.clock))
        await self._listen(broker)
        return broker

    async def move(self, name: str) -> None:
        """Have another replica for a master: the same messages at another place; the old one is dead."""
        broker = self.at[name]
        broker.listener.close()
        for writer in tuple(broker.writers):
            writer.transport.abort()
        broker.port = 0
        await self._listen(broker)

    async def lose(self, name: str, topic: str, kept: int) -> None:
        """Have a broker lose the end of a topic's first queue; its connections break, as if it had died."""
        broker, lost = self.at[name], self.at[name].store
        definition, broker.store = lost.topology.topic(topic), MemoryStore(self.clock)
        assert definition is not None
        await broker.store.topology.put_topic(definition)
        for message in await lost.messages.read(topic, 0, 0, kept):
            again = Message(topic, message.body, queue_id=0, message_id=message.message_id, system=message.system)
            assert broker.store.messages.append([again]).refusals is None
        await lost.close()
        for writer in tuple(broker.writers):
            writer.transport.abort()

    # -- what an operator does ---------------------------------------------------------------------------------------

    async def put_topic(self, topic: Topic) -> None:
        for broker in self.at.values():
            await broker.store.topology.put_topic(topic)

    async def put_namespace(self, name: str) -> None:
        for broker in self.at.values():
            await broker.store.topology.put_namespace(name)

    async def put_group(self, group: ConsumerGroup) -> None:
        for broker in self.at.values():
            await broker.store.topology.put_group(group)

    async def check_transactions(self) -> None:
        """Ask producers after the half messages that are due."""
        for broker in self.at.values():
            names = [topic.name for topic in broker.store.topology.topics()]
            for half in await broker.store.transactions.take_checks(names, 100):
                own = half.system_text(SystemProperty.TRANSACTION_ID) or ""
                place = next(each for each, (_, name) in broker.halves.items() if name == own)
                record = self._record(broker, half)
                fields = {
                    "tranStateTableOffset": "0",
                    "commitLogOffset": str(place),
                    "transactionId": record.properties["UNIQ_KEY"],
                    "bname": broker.name,
                }
                request = Frame(39, 1, fields, encode_record(record), is_one_way=True)
                for writer in broker.producers:
                    writer.write(encode(request))

    # -- connections -------------------------------------------------------------------------------------------------

    def _served(self, broker: Broker | None) -> Callable[..., Awaitable[None]]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._writers.add(writer)
            if broker is not None:
                broker.writers.add(writer)
            frames = FrameReader()
            try:
                while data := await reader.read(1 << 16):
                    for request in frames.receive(data):
                        task = asyncio.create_task(self._answer(broker, request, writer))
                        self._tasks.add(task)
                        task.add_done_callback(self._tasks.discard)
            except (ConnectionError, asyncio.CancelledError):  # the test is over
                pass
            finally:
                self._writers.discard(writer)
                if broker is not None:
                    broker.producers.discard(writer)
                    broker.writers.discard(writer)
                writer.close()

        return serve

    async def _answer(self, broker: Broker | None, request: Frame, writer: asyncio.StreamWriter) -> None:
        self.calls.append((request.code, request))
        fault = self.faults[request.code].pop(0) if self.faults[request.code] else None
        if fault == "early":
            writer.transport.abort()
            return
        if fault == "hang":
            await asyncio.Event().wait()
        try:
            if isinstance(fault, int):
                raise Refused(fault)
            self._check_signature(request)
            fields, body = await self._work(broker, request, writer)
            answer = Frame(0, request.number, {k: _text(v) for k, v in fields.items()}, body, is_answer=True)
        except Refused as refused:
            told = {name: _text(value) for name, value in refused.fields.items()}
            answer = Frame(refused.code, request.number, told, b"", is_answer=True, remark=refused.remark)
        except EntrepotError as error:
            answer = Frame(_CODES.get(error.code, 1), request.number, {}, b"", is_answer=True, remark=error.message)
        if fault == "break":
            writer.transport.abort()
        elif not request.is_one_way:
            if isinstance(fault, tuple):
                answer.code = fault[0]
            writer.write(encode(answer))

    def _check_signature(self, request: Frame) -> None:
        if self.accounts is None:
            return
        secret = self.accounts.get(request.fields.get("AccessKey", ""))
        if secret is None or signature_of(request.fields, request.body, secret) != request.fields.get(SIGNATURE):
            raise Refused(16, "authentication failed")

    async def _work(
        self, broker: Broker | None, request: Frame, writer: asyncio.StreamWriter
    ) -> tuple[dict[str, Any], bytes]:
        told = request.fields
        if broker is None:
            return self._of_name_server(request.code, told)
        if request.code == 34:
            broker.producers.add(writer)
            return {}, b""
        found = {**_AT_BROKER}.get(request.code)
        if found is None:
            raise Refused(3, f"request type {request.code} not supported")
        answer: tuple[dict[str, Any], bytes] = await found(self, broker, told, request.body)
        return answer

    # -- name server -------------------------------------------------------------------------------------------------

    def _of_name_server(self, code: int, told: dict[str, str]) -> tuple[dict[str, Any], bytes]:
        there = {name: broker for name, broker in self.at.items() if not broker.is_away}
        if code == 106:  # never standard JSON
            each = [
                f'"{n}":{{"brokerAddrs":{{{_replica(b)}:"{_address(b)}"}},"brokerName":"{n}"}}'
                for n, b in there.items()
            ]
            names = json.dumps([*there])
            return {}, f'{{"brokerAddrTable":{{{",".join(each)}}},"clusterAddrTable":{{"tests":{names}}}}}'.encode()
        if code == 216:
            return {}, b""
        if code != 105:
            raise Refused(3)
        queues, brokers = [], []
        for name, broker in there.items():
            topic = broker.store.topology.topic(_ours(told["topic"]))
            if topic is not None:
                queues.append({"brokerName": name, **_config(topic, told["topic"])})
                brokers.append(
                    {"cluster": "tests", "brokerName": name, "brokerAddrs": {_replica(broker): _address(broker)}}
                )
        if not queues:
            raise Refused(17, f"No topic route info in name server for the topic: {told['topic']}")
        return {}, json.dumps({"queueDatas": queues, "brokerDatas": brokers}).encode()

    # -- topics and groups -------------------------------------------------------------------------------------------

    async def _put_topic(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if told["topic"].startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            broker.retry_topics.add(told["topic"])
            return {}, b""
        kind = told["attributes"].removeprefix("+message.type=")
        if kind == "MIXED" and not self.takes_mixed:
            raise Refused(29, "MIXED message type is not supported.")
        reads, writes = int(told["readQueueNums"]), int(told["writeQueueNums"])
        topic = Topic(
            _ours(told["topic"]),
            reads,
            TopicType.PRIORITY if kind == "PRIORITY" else TopicType.NORMAL,
            _OF_BITS[int(told["perm"])],
            write_queues=writes,
        )
        broker.types[topic.name] = kind
        await _in_namespace(broker, topic.name)
        await broker.store.topology.put_topic(topic)
        return {}, b""

    async def _topics(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        names = {_theirs(topic.name): topic for topic in broker.store.topology.topics()}
        table = {name: _config(topic, name) | self.configs.get(name, {}) for name, topic in names.items()}
        table |= {
            name: {"readQueueNums": 1, "writeQueueNums": 1, "perm": 7} for name in ("TBW102", broker.name, "tests")
        }
        start, count = int(told.get("topicSeq", 0)), int(told.get("maxTopicNum", 1 << 30))
        page = dict(list(table.items())[start : start + count])
        return {"totalTopicNum": len(table)}, json.dumps({"topicConfigTable": page}).encode()

    async def _groups(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        table = {
            _theirs(group.name): {"consumeMessageOrderly": group.fifo, "retryMaxTimes": group.max_attempts - 1}
            for group in broker.store.topology.groups()
        }
        table = {name: config | self.configs.get(name, {}) for name, config in table.items()}
        return {}, json.dumps({"subscriptionGroupTable": table}).encode()

    async def _users(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        return {}, json.dumps(self._kept(self.users)).encode()

    async def _acls(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        self._kept(self.users)
        return {}, json.dumps(self.acls).encode()

    def _kept(self, users: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        if users is None:
            raise Refused(1, "An system error occurred, please try again later.")
        return users

    async def _settings(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        provider = "" if self.users is None else "a.Provider"
        return {}, f"brokerName={broker.name}\nauthenticationMetadataProvider={provider}\n".encode()

    async def _put_group(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        definition = json.loads(body)
        name, attempts = _ours(definition["groupName"]), definition.get("retryMaxTimes", 16) + 1
        if not definition["consumeEnable"]:
            broker.groups_made.add(definition["groupName"])
            return {}, b""
        fifo = definition.get("consumeMessageOrderly", False)
        await _in_namespace(broker, name)
        await broker.store.topology.put_group(ConsumerGroup(name, max_attempts=attempts, fifo=fifo))
        return {}, b""

    async def _delete_group(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if told["cleanOffset"] == "true":
            broker.groups_made.discard(told["groupName"])
        await _if_there(broker.store.topology.delete_group(_ours(told["groupName"])))
        return {}, b""

    async def _delete_topic(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if not told["topic"].startswith(RETRY_PREFIX):
            await _if_there(broker.store.topology.delete_topic(_ours(told["topic"])))
        return {}, b""

    # -- producing ---------------------------------------------------------------------------------------------------

    async def _send(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if not body:
            raise Refused(1, "java.lang.NullPointerException: Cannot read the array length")
        properties = properties_of(told.get("i", ""))
        if told["b"].startswith(DEAD_LETTER_PREFIX):
            await self._bury(broker, told, properties)
            return {"queueId": 0, "queueOffset": 0, "msgId": self._id(broker, 0)}, b""
        if told["b"].startswith(RETRY_PREFIX):
            await self._send_again(broker, told["b"], properties)
            return {"queueId": 0, "queueOffset": 0, "msgId": self._id(broker, 0)}, b""
        [place] = await self._store(broker, told, [(body, properties)], len(told.get("i", "").encode()))
        found: dict[str, Any] = {"queueId": told["e"], "queueOffset": place[1], "msgId": self._id(broker, place[0])}
        found["transactionId"] = properties.get("UNIQ_KEY", "")
        if "TIMER_DELIVER_MS" in properties:
            found["recallHandle"] = "a handle"
        return found, b""

    async def _bury(self, broker: Broker, told: dict[str, str], properties: dict[str, str]) -> None:
        """Take a message for a group's dead letters: it is one that the group was given."""
        group = _ours(told["b"].replace(DEAD_LETTER_PREFIX, "", 1))
        if broker.store.topology.topic(dead_letter_topic(group)) is None and told["b"] not in broker.retry_topics:
            raise Refused(17, f"topic[{told['b']}] not exist, apply first please!")
        for found in reversed(broker.popped.values()):
            is_place = (found.group, _theirs(found.topic)) == (group, properties["RETRY_TOPIC"])
            if is_place and found.unique_key == properties["UNIQ_KEY"]:
                reason = json.dumps({**properties, "j": told["j"]})
                assert await broker.store.consumption.reject(found.topic, group, [found.handle], reason) == [None]
                return
        raise AssertionError(f"the group was given no {properties}")

    async def _send_again(self, broker: Broker, resource: str, properties: dict[str, str]) -> None:
        """Take a message for a group's retry topic: the model knows dead letters, which it gives back."""
        if resource not in broker.retry_topics:
            raise Refused(17, f"topic[{resource}] not exist, apply first please!")
        if resource.removeprefix(RETRY_PREFIX) not in broker.groups_made:
            raise Refused(26, "subscription group not exist")
        for group in broker.store.topology.groups():
            dead, origin = dead_letter_topic(group.name), resource.removeprefix(f"{RETRY_PREFIX}{_theirs(group.name)}_")
            if origin == resource or broker.store.topology.topic(dead) is None:
                continue
            for letter in await broker.store.messages.read(dead, 0, 0, 100):
                if letter.message_id.decode() == properties["UNIQ_KEY"]:
                    await broker.store.consumption.resend_dead_letters(group.name, [letter.queue_offset])
                    return
        raise AssertionError(f"no dead letter {properties} for {resource}")

    async def _send_batch(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if "TIMER_" in told.get("i", ""):
            raise AssertionError("this would end all timers of a real broker for good")
        if len(body) > MAX_BODY:
            raise Refused(1, "java.lang.RuntimeException: message body size exceeded")
        places = await self._store(broker, told, decode_batch(body), 0)
        ids = ",".join(self._id(broker, place) for place, _ in places)
        return {"queueId": told["e"], "queueOffset": places[0][1], "msgId": ids}, b""

    def _id(self, broker: Broker, place: int) -> str:
        return offset_id(RecordPlace("127.0.0.1", broker.port, place))

    async def _store(
        self, broker: Broker, told: dict[str, str], messages: list[tuple[bytes, dict[str, str]]], size: int
    ) -> list[tuple[int, int]]:
        topic, queue_id = _ours(told["b"]), int(told["e"])
        known = broker.store.topology.topic(topic)
        if known is None:
            raise Refused(17, f"topic[{told['b']}] not exist, apply first please!")
        if not 0 <= queue_id < known.writable_queues:
            raise Refused(29, f"request queueId[{queue_id}] is illegal")
        if size > MAX_PROPERTIES or any(len(body) > MAX_BODY for body, _ in messages):
            raise Refused(13, f"the message is illegal. msg body length limit {MAX_BODY}B")
        is_half = int(told["f"]) & 0xC == 0x4
        made = [self._message(topic, queue_id, told, body, own, is_half=is_half) for body, own in messages]
        append = broker.store.transactions.append_half if is_half else broker.store.messages.append
        before = (await broker.store.messages.bounds(topic))[queue_id].max_offset
        confirmation = append(made)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        confirmation.when_settled(done.set_result)
        await done
        if refusal := next((each for each in confirmation.refusals or () if each is not None), None):
            raise refusal
        if is_half:
            [half] = [
                h for h in await broker.store.transactions.half_messages(topic) if h.message.system == made[0].system
            ]
            place = half.message.commit_log_offset
            broker.halves[place] = topic, made[0].system_text(SystemProperty.TRANSACTION_ID) or ""
            return [(place, 0)]
        if SystemProperty.DELIVER_AT_MS in made[0].system:
            broker.timer_log.append(_timed(messages[0][1], told["b"]))
            return [(0, 0)]
        stored = await broker.store.messages.read(topic, queue_id, before, len(made))
        return [(each.commit_log_offset, each.queue_offset) for each in stored]

    def _message(
        self, topic: str, queue_id: int, told: dict[str, str], body: bytes, own: dict[str, str], *, is_half: bool
    ) -> Message:
        system: dict[str, Any] = {_TEXT: json.dumps(own), _BORN_MS: told["g"], _RECONSUMED: told["j"]}
        if is_half:
            system[SystemProperty.TRANSACTION_ID] = own["UNIQ_KEY"]
        elif (at_ms := int(own.get("TIMER_DELIVER_MS", 0))) > self.clock.now_ms():
            system[SystemProperty.DELIVER_AT_MS] = at_ms
        return Message(
            topic,
            body,
            queue_id=queue_id,
            tag=own.get("TAGS", ""),
            keys=tuple(own.get("KEYS", "").split()),
            message_group=own.get("__SHARDINGKEY", ""),
            message_id=own.get("UNIQ_KEY", "").encode(),
            system=system,
        )

    async def _recall(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        version, topic, name, at_ms, key = urlsafe_b64decode(told["recallHandle"]).decode().split(" ")
        if (version, name) != ("v1", broker.name) or int(at_ms) <= self.clock.now_ms():
            raise Refused(604, "recall failed, timestamp invalid")
        await _if_there(broker.store.timers.recall(_ours(topic), key.encode(), int(at_ms)))
        broker.timer_log.append(_timed({"UNIQ_KEY": key, "TIMER_DEL_UNIQKEY": topic + key}, topic))
        return {"msgId": key}, b""

    async def _end_transaction(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        found = broker.halves.get(int(told["commitLogOffset"]))
        if found is None:
            raise Refused(1, "Find prepared transaction message failed")
        end = TransactionEnd(*found, told["commitOrRollback"] == "8")
        [refusal] = await broker.store.transactions.end_transactions([end])
        if refusal is not None:
            raise Refused(1, refusal.message)
        return {}, b""

    # -- consuming ---------------------------------------------------------------------------------------------------

    async def _pop(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if int(told["maxMsgNums"]) > 32:
            raise Refused(29, "pop message's num is greater than 32")
        topic, group, poll_ms = _ours(told["topic"]), _ours(told["consumerGroup"]), int(told["pollTime"])
        wanted = None if told["exp"] == "*" else FilterExpression(FilterKind(told["expType"]), told["exp"])
        count, invisible_ms = int(told["maxMsgNums"]), int(told["invisibleTime"])
        if (group, topic) not in broker.begun:
            broker.begun.add((group, topic))
            if told["initMode"] == "1":
                await broker.store.topology.put_group(broker.store.topology.group(group) or ConsumerGroup(group))
                await broker.store.consumption.reset_group(group, topic, LATEST_POSITION)
        request = PopRequest(topic, group, count, poll_ms, invisible_ms, wanted, told.get("attemptId", ""))
        deliveries = [*await broker.store.consumption.pop(request)]
        if not deliveries:
            raise Refused(210, "NO_MESSAGE_IN_QUEUE")
        self._pops += 1
        records = [await self._given(broker, group, topic, each, invisible_ms) for each in deliveries]
        starts: dict[int, int] = {}
        for record in records:
            starts.setdefault(record.queue_id, record.queue_offset)
        info = ";".join(f"0 {queue} {start}" for queue, start in starts.items())
        told_of = {"popTime": self._pops, "invisibleTime": invisible_ms, "reviveQid": 3, "restNum": 0}
        return {**told_of, "startOffsetInfo": info}, b"".join(map(encode_record, records))

    async def _given(self, broker: Broker, group: str, topic: str, delivery: Delivery, invisible_ms: int) -> Record:
        record = self._record(broker, delivery.message)
        lies_in = (await broker.store.finder.message_at(delivery.message.commit_log_offset)).topic
        comes_again = delivery.attempt > 1 or is_retry_topic(lies_in)
        record.topic = _theirs(topic)
        place = (str(self._pops), "1" if comes_again else "0", record.queue_id, record.queue_offset)
        broker.popped[place] = Popped(group, topic, delivery.receipt_handle, delivery.message.message_id.decode())
        record.reconsume_times = delivery.attempt - 1
        if comes_again:
            where = f"{broker.name} {record.queue_id} {record.queue_offset}"
            record.properties["POP_CK"] = f"{record.queue_offset} {self._pops} {invisible_ms} 3 1 {where}"
        return record

    def _record(self, broker: Broker, message: StoredMessage) -> Record:
        properties = {k: v for k, v in json.loads(message.system_text(_TEXT) or "{}").items() if v}
        properties |= {"CLUSTER": "tests", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        attempts = message.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS)
        if (origin := message.system_text(SystemProperty.DEAD_LETTER_TOPIC)) is not None:
            properties["RETRY_TOPIC"] = _theirs(origin)
            buried = message.system_text(SystemProperty.DEAD_LETTER_REASON) or ""
            if buried.startswith("{"):
                properties |= json.loads(buried)
                attempts = properties.pop("j")
        if is_retry_topic(message.topic):
            retried = _theirs(retried_topic(message.topic))
            name = f"{RETRY_PREFIX}{_theirs(retry_group(message.topic))}_{retried}"
        else:
            name = _theirs(message.topic)
        return Record(
            name,
            message.queue_id,
            message.queue_offset,
            message.commit_log_offset,
            message.body,
            properties,
            born_time_ms=int(message.system_text(_BORN_MS) or 0),
            born_host="127.0.0.1",
            store_time_ms=message.store_time_ms,
            host="127.0.0.1",
            port=broker.port,
            reconsume_times=int(attempts or message.system_text(_RECONSUMED) or 0),
        )

    def _hand(self, broker: Broker, told: dict[str, str]) -> tuple[Place, Popped | None]:
        _, popped, _, _, retry, name, queue_id, offset, *_ = told["extraInfo"].split(" ")
        topic, group = told["topic"], told["consumerGroup"]
        place = (popped, retry, int(queue_id), int(offset))
        found = broker.popped.get(place)
        assert name == broker.name and told["offset"] == offset and told["queueId"] == queue_id
        if found is not None:
            expected = f"{RETRY_PREFIX}{group}_{_theirs(found.topic)}" if retry == "1" else _theirs(found.topic)
            assert topic == expected, f"{topic} is not {expected}"
        return place, found if found is not None and _theirs(found.group) == group else None

    async def _ack(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        _, found = self._hand(broker, told)
        if found is not None:
            await broker.store.consumption.acknowledge(found.topic, found.group, [found.handle])
        return {}, b""

    async def _ack_batch(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        for each in json.loads(body)["acks"]:
            bits = int.from_bytes(b64decode(each["b"]), "little")
            for place in range(bits.bit_length()):
                key = (str(each["pt"]), each["r"], each["q"], each["so"] + place)
                found = broker.popped.get(key) if bits >> place & 1 else None
                if found is not None and (_theirs(found.group), _theirs(found.topic)) == (each["c"], each["t"]):
                    await broker.store.consumption.acknowledge(found.topic, found.group, [found.handle])
        return {}, b""

    async def _change(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        place, found = self._hand(broker, told)
        self._pops += 1
        if found is not None:
            change = broker.store.consumption.change_invisible_duration
            wait_ms = int(told["invisibleTime"])
            [refusal] = await change(found.topic, found.group, [found.handle], wait_ms, release=False)
            if refusal is None:
                broker.popped[str(self._pops), *place[1:]] = broker.popped.pop(place)  # type: ignore[index]
        return {"popTime": self._pops, "invisibleTime": told["invisibleTime"], "reviveQid": 4}, b""

    async def _send_back(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        message = await broker.store.finder.message_at(int(told["offset"]))
        group = _ours(told["group"])
        for (_, _, queue_id, offset), found in reversed(broker.popped.items()):
            if (queue_id, offset, found.group) == (message.queue_id, message.queue_offset, group):
                await broker.store.consumption.reject(found.topic, group, [found.handle])
                break
        return {}, b""

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def _pull(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        topic, queue_id, start = _ours(told["topic"]), int(told["queueId"]), int(told["queueOffset"])
        flags, count = int(told["sysFlag"]), int(told["maxMsgNums"])
        assert flags & 4 and not flags & 1 and count <= 32
        grown = asyncio.Event()
        tail = broker.store.messages.tail(topic, queue_id, None, lambda messages: grown.set())
        try:
            bounds = (await broker.store.messages.bounds(topic))[queue_id]
            if flags & 2 and start == bounds.max_offset:
                async with asyncio.timeout(int(told["suspendTimeoutMillis"]) / 1000):
                    await grown.wait()
        except TimeoutError:
            pass
        finally:
            tail.close()
        bounds = (await broker.store.messages.bounds(topic))[queue_id]
        told_of = {"minOffset": bounds.min_offset, "maxOffset": bounds.max_offset, "suggestWhichBrokerId": 0}
        if not bounds.min_offset <= start <= bounds.max_offset:
            nearest = min(max(start, bounds.min_offset), bounds.max_offset)
            raise Refused(21, "", {**told_of, "nextBeginOffset": nearest})
        wanted = None if told["subscription"] == "*" else FilterExpression(FilterKind.TAG, told["subscription"])
        pulled = await broker.store.messages.pull(topic, queue_id, start, count, wanted)
        records = b"".join(encode_record(self._record(broker, message)) for message in pulled.messages)
        told_of["nextBeginOffset"] = pulled.next_offset
        if not pulled.messages:
            raise Refused(19 if pulled.next_offset == start else 20, "", told_of)
        return told_of, records

    async def _bound(self, broker: Broker, told: dict[str, str], position: Position) -> tuple[dict[str, Any], bytes]:
        topic = _ours(told["topic"])
        known = broker.store.topology.topic(topic)
        if known is None or int(told["queueId"]) >= known.queues:
            return {"offset": 0}, b""
        return {"offset": await broker.store.messages.offset_at(topic, int(told["queueId"]), position)}, b""

    async def _max(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        return await self._bound(broker, told, LATEST_POSITION)

    async def _min(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        return await self._bound(broker, told, EARLIEST_POSITION)

    async def _at_time(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        return await self._bound(broker, told, Position(PositionKind.TIME, int(told["timestamp"])))

    async def _stats(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        group, pairs = _ours(told["consumerGroup"]), []
        if broker.store.topology.group(group) is not None:
            for each in (await broker.store.topology.group_status(group)).progress:
                queue = {"brokerName": broker.name, "queueId": each.queue_id, "topic": _theirs(each.topic)}
                held = each.committed_offset + each.in_flight
                about = {"brokerOffset": each.max_offset, "consumerOffset": each.committed_offset, "pullOffset": held}
                pairs.append(f"{json.dumps(queue)}:{json.dumps(about)}")
        return {}, f'{{"consumeTps":0.0,"offsetTable":{{{",".join(pairs)}}}}}'.encode()

    async def _reset(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        position = Position(PositionKind.OFFSET, int(told["offset"]))
        topic, group = _ours(told["topic"]), _ours(told["group"])
        broker.begun.add((group, topic))
        await broker.store.consumption.reset_group(group, topic, position, int(told["queueId"]))
        return {}, b""

    async def _offset_of_group(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        group = _ours(told["consumerGroup"])
        if broker.store.topology.group(group) is not None:
            for each in (await broker.store.topology.group_status(group)).progress:
                if (each.topic, each.queue_id) == (_ours(told["topic"]), int(told["queueId"])):
                    return {"offset": each.committed_offset}, b""
        raise Refused(22, "Not found")

    async def _commit(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if broker.store.topology.group(_ours(told["consumerGroup"])) is None:
            raise Refused(26, f"consumer group [{told['consumerGroup']}] not exist")
        return await self._reset(broker, {**told, "group": told["consumerGroup"], "offset": told["commitOffset"]}, body)

    # -- look-up -----------------------------------------------------------------------------------------------------

    async def _query(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        if told["topic"] == "rmq_sys_wheel_timer":
            timed = [record for record in broker.timer_log if record.properties["UNIQ_KEY"] == told["key"]]
            if not timed:
                raise Refused(22, "can not find message, maybe time range not correct")
            return {}, b"".join(map(encode_record, timed))
        found: list[StoredMessage] = []
        topic, key = _ours(told["topic"]), told["key"]
        for bounds in await broker.store.messages.bounds(topic):
            span = bounds.max_offset - bounds.min_offset
            if span:
                found += await broker.store.messages.read(topic, bounds.queue_id, bounds.min_offset, span)
        is_id = told["_UNIQUE_KEY_QUERY"] == "true"
        found = [m for m in found if (m.message_id.decode() == key if is_id else key in m.keys)]
        least, most = int(told["beginTimestamp"]), int(told["endTimestamp"])
        found = [m for m in found if least <= m.store_time_ms <= most][: int(told["maxNum"])]
        if not found:
            raise Refused(22, "can not find message, maybe time range not correct")
        return {}, b"".join(encode_record(self._record(broker, m)) for m in found)

    async def _view(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        try:
            message = await broker.store.finder.message_at(int(told["offset"]))
        except EntrepotError as error:
            raise Refused(1, "can not find message by the offset") from error
        return {}, encode_record(self._record(broker, message))

    async def _groups_of_topic(self, broker: Broker, told: dict[str, str], body: bytes) -> tuple[dict[str, Any], bytes]:
        topic, names = _ours(told["topic"]), []
        for group in broker.store.topology.groups():
            status = await broker.store.topology.group_status(group.name)
            if any(each.topic == topic for each in status.progress):
                names.append(_theirs(group.name))
        return {}, json.dumps({"groupList": names}).encode()


_AT_BROKER: Final = {
    11: RocketMqServer._pull,
    12: RocketMqServer._query,
    14: RocketMqServer._offset_of_group,
    15: RocketMqServer._commit,
    17: RocketMqServer._put_topic,
    21: RocketMqServer._topics,
    26: RocketMqServer._settings,
    29: RocketMqServer._at_time,
    30: RocketMqServer._max,
    31: RocketMqServer._min,
    33: RocketMqServer._view,
    36: RocketMqServer._send_back,
    37: RocketMqServer._end_transaction,
    200: RocketMqServer._put_group,
    201: RocketMqServer._groups,
    207: RocketMqServer._delete_group,
    208: RocketMqServer._stats,
    215: RocketMqServer._delete_topic,
    222: RocketMqServer._reset,
    300: RocketMqServer._groups_of_topic,
    310: RocketMqServer._send,
    320: RocketMqServer._send_batch,
    370: RocketMqServer._recall,
    3005: RocketMqServer._users,
    3010: RocketMqServer._acls,
    200050: RocketMqServer._pop,
    200051: RocketMqServer._ack,
    200053: RocketMqServer._change,
    200151: RocketMqServer._ack_batch,
}
_CODES: Final = {
    Code.TOPIC_NOT_FOUND: 17,
    Code.FORBIDDEN: 16,
    Code.CONSUMER_GROUP_NOT_FOUND: 26,
    Code.ILLEGAL_FILTER_EXPRESSION: 23,
    Code.TOO_MANY_REQUESTS: 2,
    Code.STORAGE_FULL: 14,
    Code.MESSAGE_BODY_TOO_LARGE: 13,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: 13,
    Code.BAD_REQUEST: 29,
    Code.ILLEGAL_TOPIC: 29,
}


async def _in_namespace(broker: Broker, name: str) -> None:
    """RocketMQ's namespaces are there once a name is in them."""
    await broker.store.topology.put_namespace(split_name(name)[0])


async def _if_there(work: Awaitable[Any]) -> None:
    """Brokers answer alike whether a thing was there or not."""
    try:
        await work
    except EntrepotError:
        return


def _config(topic: Topic, name: str) -> dict[str, Any]:
    kind = {"message.type": "PRIORITY"} if topic.type is TopicType.PRIORITY else {}
    queues = {"readQueueNums": topic.queues, "writeQueueNums": topic.writable_queues}
    return {"topicName": name, **queues, "perm": _PERMISSIONS[topic.permission], "attributes": kind}


def _timed(properties: dict[str, str], resource: str) -> Record:
    return Record("rmq_sys_wheel_timer", body=b"0", properties={**properties, "REAL_TOPIC": resource, "REAL_QID": "0"})


def _address(broker: Broker) -> str:
    return f"127.0.0.1:{broker.port}"


def _replica(broker: Broker) -> str:
    return "0" if broker.has_master else "2"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ours(name: str) -> str:
    """The memory store's name: a namespace before `/`."""
    prefix = next((each for each in ("%DLQ%", "%RETRY%") if name.startswith(each)), "")
    namespace, between, plain = name[len(prefix) :].partition("%")
    return f"{namespace}/{prefix}{plain}" if between and namespace else name


def _theirs(name: str) -> str:
    namespace, between, plain = name.partition("/")
    if not between:
        return name
    prefix = next((each for each in ("%DLQ%", "%RETRY%") if plain.startswith(each)), "")
    return f"{prefix}{namespace}%{plain[len(prefix) :]}"
