"""Telemetry, Heartbeat, NotifyClientTermination: clients while they are connected."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Final

import structlog

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.client_settings import consumer_settings, producer_settings
from entrepot.gateway.rocketmq.connected import RocketMqClient
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.holding import Holding
from entrepot.gateway.rocketmq.lite import LiteSubscriptions
from entrepot.gateway.rocketmq.names import group_of, topic_of
from entrepot.gateway.rocketmq.self_description import SelfDescription, described
from entrepot.gateway.security.security import PrincipalChange
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError, status_of

MAX_COMMANDS: Final = 1000
"""Commands that wait for one client; the oldest makes room: transactions are checked again."""
CONSUMERS: Final = (
    v2.PUSH_CONSUMER,
    v2.SIMPLE_CONSUMER,
    v2.PULL_CONSUMER,
    v2.LITE_PUSH_CONSUMER,
    v2.LITE_SIMPLE_CONSUMER,
)
PUSHED: Final = (v2.PUSH_CONSUMER, v2.LITE_PUSH_CONSUMER)
PUSHED_KINDS: Final = ("push-consumer", "lite-push-consumer")
"""Their words in a description."""

UNDECODABLE: Final = object()
"""Stand-in for a request whose bytes are not a message of its type."""

log = structlog.get_logger(__name__)


class UndecodableError(Exception):
    """A client's stream has sent bytes that are not a command."""


class ClientStream:
    """One client's Telemetry stream: its description, and the commands that wait for it. `number`: its own at this
    gateway."""

    def __init__(self, caller: Caller, number: int, since_ms: int) -> None:
        self.caller, self.number, self.since_ms = caller, number, since_ms
        self.description = SelfDescription()
        self.topics: frozenset[str] = frozenset()
        """Topics that it publishes to."""
        self._commands: deque[v2.TelemetryCommand] = deque(maxlen=MAX_COMMANDS)
        self._woken = asyncio.Event()
        self._is_over = False
        self.is_undecodable = False
        """True if it ended with bytes that are not a command."""

    def tell(self, command: v2.TelemetryCommand) -> None:
        self._commands.append(command)
        self._woken.set()

    def end(self) -> None:
        """End it after the waiting commands."""
        self._is_over = True
        self._woken.set()

    async def commands(self) -> AsyncIterator[v2.TelemetryCommand]:
        while True:
            while self._commands:
                yield self._commands.popleft()
            if self._is_over:
                return
            self._woken.clear()
            await self._woken.wait()


class Telemetry:
    """The streams of this gateway."""

    def __init__(self, frontend: RocketMqFrontend, holding: Holding, lite: LiteSubscriptions) -> None:
        self._frontend, self._holding, self._lite = frontend, holding, lite
        self._streams: set[ClientStream] = set()
        self._numbers = itertools.count(1)
        frontend.stopping.add_done_callback(lambda _: self._end_all())
        frontend.access.watch(self._rights_changed)

    async def converse(
        self, questions: AsyncIterator[v2.TelemetryCommand], caller: Caller
    ) -> AsyncGenerator[v2.TelemetryCommand, None]:
        """Converse until the client goes. Raises UndecodableError for bytes that are not a command."""
        if len(self._streams) >= self._frontend.settings.max_clients:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many clients are connected to this gateway")
        stream = ClientStream(caller, next(self._numbers), self._frontend.clock.now_ms())
        listening = self._frontend.tasks.spawn(self._listen(questions, stream))
        self._streams.add(stream)
        self._frontend.counters.clients += 1
        try:
            async for command in stream.commands():
                yield command
            if stream.is_undecodable:
                raise UndecodableError
        finally:
            listening.cancel()
            self._streams.discard(stream)
            self._frontend.counters.clients -= 1

    async def _listen(self, questions: AsyncIterator[v2.TelemetryCommand], stream: ClientStream) -> None:
        try:
            async for command in questions:
                if command is UNDECODABLE:
                    stream.is_undecodable = True
                    return
                kind = command.WhichOneof("command")
                if kind == "settings":
                    stream.tell(self._settings(command.settings, stream))
                else:
                    log.debug("a client has said something that nobody asked for", kind=kind)
        finally:
            stream.end()

    def _settings(self, said: v2.Settings, stream: ClientStream) -> v2.TelemetryCommand:
        frontend = self._frontend
        try:
            if said.WhichOneof("pub_sub") == "publishing":
                topics = frozenset(topic_of(topic) for topic in said.publishing.topics)
                for topic in topics:
                    frontend.access.check_publish(stream.caller, topic, "")
                stream.topics = topics
                merged = producer_settings(said, frontend.settings)
            elif said.WhichOneof("pub_sub") == "subscription":
                group = group_of(said.subscription.group)
                frontend.access.check_group(stream.caller, group)
                known = frontend.store.topology.group(group) or frontend.groups.new_group(group)
                merged = consumer_settings(said, frontend.settings, known)
            else:
                raise WireError(v2.UNRECOGNIZED_CLIENT_TYPE, "the settings are neither a producer's nor a consumer's")
        except EntrepotError as refusal:
            return v2.TelemetryCommand(status=status_of(refusal), settings=said)
        stream.description = described(said)
        return v2.TelemetryCommand(status=OK_STATUS, settings=merged)

    # -- calls that say that a client lives, or not ------------------------------------------------------------------

    async def heartbeat(self, question: v2.HeartbeatRequest, caller: Caller) -> v2.HeartbeatResponse:
        """Note that the client lives; it need not be known."""
        if question.client_type in CONSUMERS:
            if question.HasField("group"):
                self._frontend.access.check_group(caller, group_of(question.group))
            if question.client_type in PUSHED:
                self._holding.seen(caller.identity)
        elif question.client_type != v2.PRODUCER:
            raise WireError(v2.UNRECOGNIZED_CLIENT_TYPE, f"there is no client of type {question.client_type}")
        return v2.HeartbeatResponse(status=OK_STATUS)

    async def terminate(
        self, question: v2.NotifyClientTerminationRequest, caller: Caller
    ) -> v2.NotifyClientTerminationResponse:
        """End the client and release its messages; nobody else's: see `Caller.identity`."""
        group = group_of(question.group) if question.HasField("group") else None
        await self._holding.goodbye(caller.identity)
        await self._lite.forget(caller.identity, group)
        return v2.NotifyClientTerminationResponse(status=OK_STATUS)

    # -- for others --------------------------------------------------------------------------------------------------

    def clients(self) -> Iterator[RocketMqClient]:
        """All connected clients."""
        for stream in tuple(self._streams):
            caller, said = stream.caller, stream.description
            yield RocketMqClient(
                stream.number,
                caller.client_id,
                "" if caller.principal.is_anonymous else caller.principal.name,
                caller.source,
                stream.since_ms,
                said.kind,
                said.group,
                said.topics,
                said.language,
                said.version,
                said.hostname,
                self._holding.held_by(caller.identity) if said.kind in PUSHED_KINDS else None,
            )

    async def disconnect(self, client_id: str) -> int:
        """End a client's streams and release its held messages; return the number of streams."""
        streams = [stream for stream in self._streams if stream.caller.client_id == client_id]
        for stream in streams:
            stream.end()
        for identity in {stream.caller.identity for stream in streams}:
            await self._holding.goodbye(identity)
        return len(streams)

    def published_topics(self) -> set[str]:
        """The topics of all connected producers."""
        return {topic for stream in self._streams for topic in stream.topics}

    def tell_a_producer(self, topic: str, may: Callable[[Caller], bool], command: v2.TelemetryCommand) -> bool:
        """Send a command to one of a topic's producers that may have it; False if there is none."""
        found = [stream for stream in self._streams if topic in stream.topics and may(stream.caller)]
        if not found:
            return False
        random.choice(found).tell(command)
        return True

    def _rights_changed(self, change: PrincipalChange) -> None:
        """End streams of revoked principals. The others are checked at the next command."""
        for stream in tuple(self._streams):
            if change.is_revoked and change.name in (None, stream.caller.principal.name):
                refusal = EntrepotError(Code.UNAUTHORIZED, "the client's rights were revoked")
                stream.tell(v2.TelemetryCommand(status=status_of(refusal)))
                stream.end()

    def _end_all(self) -> None:
        for stream in tuple(self._streams):
            stream.end()
