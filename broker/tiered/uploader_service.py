"""UploaderService: a broker's side of its uploader: it starts the process, and answers its questions.

Nothing is remembered here: another uploader goes on where one has ended.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.broker.metadata.registry import Registry
from entrepot.broker.ports.cold_reads import is_tiered
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.healer import NO_HEALER
from entrepot.broker.store.record_runs import bytes_between
from entrepot.broker.tiered.fence import Writer, epoch_of
from entrepot.broker.tiered.marks import TableMarks
from entrepot.broker.tiered.settings import TierSettings
from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError
from entrepot.domain.topic import Topic

if TYPE_CHECKING:
    from entrepot.broker.tiered.uploader import Progress, TopicState

SAMPLE: Final = 64
"""Messages by which the size of one is estimated."""
OURS: Final = ("cache_bytes", "read", "max_kept_bytes", "attach_endpoints")
"""Settings that no uploader needs."""


class UploaderService:
    """The service. `root`: path of a topic's table. `told`: the uploader's report on a topic."""

    def __init__(
        self,
        engine: StorageEngine,
        registry: Registry,
        root: Callable[[Topic], str],
        marks: TableMarks,
        told: Callable[[Progress], None],
    ) -> None:
        self._engine, self._registry = engine, registry
        self._root, self._marks, self._told = root, marks, told
        self.process: subprocess.Popen[bytes] | None = None
        self._failed_before = self._failed_now = 0

    @property
    def failed_requests(self) -> int:
        """Requests to the object store that failed, of all uploaders so far."""
        return self._failed_before + self._failed_now

    def stop(self) -> None:
        """End the uploader, if there is one."""
        if self.process is not None:
            self.process.terminate()

    async def run(self, settings: TierSettings, own: Writer, token: str) -> None:
        """Run an uploader, and serve it until it ends. `own`: the writer; `token`: its mark in the object store."""
        from entrepot.broker.tiered.channel import Setup, frame

        ours, theirs = socket.socketpair()
        self.process = process = _started(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        values = {key: value for key, value in asdict(settings).items() if key not in OURS}
        try:
            writer.writelines(frame(Setup(**values, writer=own, token=token, seed=secrets.randbits(63))))
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            process.terminate()
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, process.wait))
            self.process = None
            self._failed_before += self._failed_now
            self._failed_now = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from entrepot.broker.tiered.channel import LENGTH, frame

        while True:
            (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            name, arguments = msgspec.msgpack.decode(await reader.readexactly(length))
            try:
                answer = (await self._heal(*arguments) if name == "heal" else self._answer(name, arguments), "")
            except EntrepotError as refusal:
                answer = (None if name != "records" else b"", refusal.message)
            except Exception as fault:  # noqa: BLE001 - one question of one topic
                background().failed("answers to the uploader", fault)
                answer = (None if name != "records" else b"", f"{type(fault).__name__}: {fault}")
            writer.writelines(frame(answer))
            await writer.drain()

    async def _heal(self, commit_log_offset: int) -> bool | None:
        """True if a corrupted record is whole now, from another replica; None where there is none."""
        healer = self._engine.commit_log.healer
        return None if healer is NO_HEALER else await healer.heal(commit_log_offset)

    def _answer(self, name: str, arguments: list[Any]) -> Any:
        from entrepot.broker.consume.runs import read_whole_or_corrupted
        from entrepot.broker.tiered.uploader import Progress

        if name == "states":
            self._failed_now = arguments[0]
            return self._states()
        if name == "told":
            self._told(msgspec.convert(arguments[0], Progress))
            return None
        topic, queue_id, first, end, max_bytes = arguments
        queue = self._engine.existing_queue(topic, queue_id)
        return read_whole_or_corrupted(self._engine, queue, first, end, max_bytes)

    def _states(self) -> list[TopicState]:
        from entrepot.broker.tiered.uploader import QueueState, TopicState

        found, epoch = [], epoch_of(self._engine)
        for topic in self._registry.topics.values():
            if is_tiered(topic):
                queues = self._engine.dispatcher.first_queues(topic.name, topic.queues)
                states = [QueueState(q.queue_id, q.min_offset, q.visible_offset, _message_bytes(q)) for q in queues]
                root, retention_ms = self._root(topic), 1000 * (topic.tier_seconds or 0)
                found.append(TopicState(topic.name, root, retention_ms, states, epoch, self._marks.of(root)))
        return found


def _started(channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start an uploader at the other end of a channel, which is closed here."""
    with channel:
        return subprocess.Popen(
            [sys.executable, "-m", "entrepot.broker.tiered.process", str(channel.fileno())],
            pass_fds=[channel.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _message_bytes(queue: ConsumeQueue) -> int:
    start = max(queue.min_offset, queue.visible_offset - SAMPLE)
    count = queue.visible_offset - start
    return bytes_between(queue, start, queue.visible_offset) // count if count else 0
