"""The servers of the conversations: ours as a process, and RocketMQ with its proxy in cluster mode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.rocketmq.conversation import Conversation
from tests.conformance.rocketmq.kept import OURS, THEIRS, Answers
from tests.conformance.rocketmq.player import Prepare, play
from tests.support.http.pull import http_json
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.cluster import RocketMqCluster

NAMES: Final = (OURS, THEIRS)
AT_ONCE: Final = 6
"""Conversations under way at once: most of their time they wait for messages."""
PRIORITY: Final = "PRIORITY"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: where it is, and how its topics and groups are made."""

    address: str
    prepare: Prepare

    def answers(self, conversations: Iterable[Conversation]) -> Answers:
        """The masked answers to conversations, several at once."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            played = {each.name: pool.submit(play, each, self.address, self.prepare) for each in conversations}
            return {name: each.result() for name, each in played.items()}


@contextmanager
def started(name: str, directory: Path) -> Iterator[Server]:
    """A server on an empty directory."""
    with _ours(directory) if name == OURS else _theirs(directory) as server:
        yield server


@contextmanager
def _ours(directory: Path) -> Iterator[Server]:
    with ServerProcess(directory) as process:

        def prepare(conversation: Conversation, topic: str, group: str) -> None:
            kind = {"type": PRIORITY} if conversation.message_type == PRIORITY else {}
            http_json(process, "PUT", f"/api/v1/topics/{topic}", {"queues": 1, **kind})
            about = {"fifo": conversation.fifo, "maxAttempts": conversation.max_attempts}
            http_json(process, "PUT", f"/api/v1/groups/{group}", about)

        yield Server(process.address("grpc"), prepare)


@contextmanager
def _theirs(directory: Path) -> Iterator[Server]:
    with RocketMqCluster(directory, proxy=True) as cluster:

        def prepare(conversation: Conversation, topic: str, group: str) -> None:
            cluster.put_topic(topic, 1, conversation.message_type)
            cluster.put_group(group, fifo=conversation.fifo, max_attempts=conversation.max_attempts)

        yield Server(f"127.0.0.1:{cluster.proxies[0].port}", prepare)
