"""QueryRoute and QueryAssignment: the place of a topic's queues, which is here.

Every gateway has every queue, so a route names one broker. Its endpoints are the host and port that the client itself
used, so the client passes the same container, mapped port or load balancer again. `grpc.addresses` sets other ones.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.names import dead_letter_group
from entrepot.domain.topic import Permission, Topic, TopicType, own_queues
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.names import NAMESPACES, group_of, topic_of
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError
from entrepot.protocols.rocketmq.known_types import knows
from entrepot.protocols.rocketmq.names import Address, endpoints

BROKER: Final = "entrepot"
MASTER: Final = 0
ANY_QUEUE: Final = -1
"""The queue id that stands for all queues of a broker."""

MAX_ADDRESSES: Final = 64
MAX_ENDPOINTS_BYTES: Final = 8 << 10
"""Longest endpoints of a client, in bytes: the answer repeats them for each queue."""

ANY_TYPES: Final = (v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION, v2.LITE)
PRIORITY_TYPES: Final = (v2.NORMAL, v2.DELAY, v2.TRANSACTION, v2.PRIORITY)
_SETS: Final = {TopicType.NORMAL: frozenset(ANY_TYPES), TopicType.PRIORITY: frozenset(PRIORITY_TYPES)}


def accepted_types(topic: Topic | None) -> frozenset[int]:
    """The message types that a topic takes. In a PRIORITY topic the queue is the priority, so FIFO is not accepted."""
    return _SETS[TopicType.NORMAL if topic is None else topic.type]


def announced_types(topic: Topic, caller: Caller) -> tuple[v2.MessageType.ValueType, ...]:
    """The types of a topic that its client knows: older SDKs end at a route with one that they do not know."""
    types = PRIORITY_TYPES if topic.type is TopicType.PRIORITY else ANY_TYPES
    return tuple(kind for kind in types if knows(caller.language, caller.version, kind))


class Routes:
    """The two calls."""

    def __init__(self, frontend: RocketMqFrontend) -> None:
        self._frontend = frontend
        self._fixed = tuple(_address(text) for text in frontend.settings.addresses)

    async def query_route(self, question: v2.QueryRouteRequest, caller: Caller) -> v2.QueryRouteResponse:
        """Return all queues, each once for every broker that the client is told of."""
        topic = await self._topic(question.topic, caller)
        store = self._frontend.store
        queues = (
            store.topology.queues(topic)
            if store.topology.topic(topic.name) is not None
            else own_queues(topic.queues, 0)
        )
        writable = frozenset(queues.writable)
        answer = v2.QueryRouteResponse(status=OK_STATUS)
        types = announced_types(topic, caller)
        for broker in self._brokers(question.endpoints):
            for queue_id in queues.readable:
                permission = _permission(topic.permission, is_writable=queue_id in writable)
                answer.message_queues.add(
                    topic=question.topic,
                    id=queue_id,
                    permission=permission,
                    broker=broker,
                    accept_message_types=types,
                )
        return answer

    async def query_assignment(self, question: v2.QueryAssignmentRequest, caller: Caller) -> v2.QueryAssignmentResponse:
        """Return a push consumer's assignment: everything at each broker, for FIFO groups, too. Order is kept by
        message group, so no consumer needs a queue for itself."""
        group_of(question.group)
        topic = await self._topic(question.topic, caller)
        if not topic.permission.readable:
            raise WireError(v2.FORBIDDEN, f"topic {topic.name!r} is not readable")
        permission = _permission(topic.permission, is_writable=True)
        answer = v2.QueryAssignmentResponse(status=OK_STATUS)
        for broker in self._brokers(question.endpoints):
            queue = v2.MessageQueue(topic=question.topic, id=ANY_QUEUE, permission=permission, broker=broker)
            answer.assignments.add(message_queue=queue)
        return answer

    async def _topic(self, resource: v2.Resource, caller: Caller) -> Topic:
        frontend = self._frontend
        name = topic_of(resource, is_read=True)
        frontend.access.check_know(caller, name)
        found = frontend.store.topology.topic(name)
        if found is None:
            await frontend.topology.ensure_readable(name)
            found = frontend.store.topology.topic(name)
        if (
            found is None
            and (group := dead_letter_group(name)) is not None
            and frontend.store.topology.group(group) is not None
        ):
            return Topic(name, queues=1, permission=Permission.READ)  # made when it is needed
        if found is None:
            raise WireError(v2.TOPIC_NOT_FOUND, f"there is no topic {NAMESPACES.resource(name).name!r}")
        return found

    def _brokers(self, used: v2.Endpoints) -> list[v2.Broker]:
        """The broker at the client's own endpoints, else one for each fixed address. So a client that cannot reach one
        of them uses the others."""
        if len(used.addresses) > MAX_ADDRESSES or used.ByteSize() > MAX_ENDPOINTS_BYTES:
            raise WireError(v2.ILLEGAL_ACCESS_POINT, f"endpoints have at most {MAX_ADDRESSES} addresses")
        if not self._fixed:
            at = used if used.addresses else endpoints([self._frontend.address])
            return [v2.Broker(name=BROKER, id=MASTER, endpoints=at)]
        return [
            v2.Broker(name=f"{BROKER}-{number}", id=MASTER, endpoints=endpoints([address]))
            for number, address in enumerate(self._fixed)
        ]


def _permission(permission: Permission, *, is_writable: bool) -> v2.Permission.ValueType:
    readable, writable = permission.readable, permission.writable and is_writable
    if readable and writable:
        return v2.READ_WRITE
    return v2.READ if readable else v2.WRITE if writable else v2.NONE


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)
