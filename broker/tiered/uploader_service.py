"""UploaderService: a broker's side of its uploader: it starts the process, and answers its questions.

Nothing of its work is remembered here: another uploader goes on where one has ended. Only what ended it is
(`troubles.py`). An uploader that asks nothing for very long is ended, too.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

import msgspec
import structlog

from entrepot.broker.cold.reads import is_tiered
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.settings.tier import TierSettings
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.engine import StorageEngine
from entrepot.broker.store.healer import NO_HEALER
from entrepot.broker.store.record_runs import bytes_between
from entrepot.broker.tiered.fence import Writer, epoch_of
from entrepot.broker.tiered.marks import TableMarks
from entrepot.broker.tiered.source import Begun, Progress, QueueState, TopicState
from entrepot.broker.tiered.troubles import Troubles
from entrepot.domain.background import background
from entrepot.domain.errors import EntrepotError
from entrepot.domain.topic import Topic

SAMPLE: Final = 64
"""Messages by which the size of one is estimated."""
OURS: Final = ("cache_bytes", "read", "max_kept_bytes", "attach_endpoints", "attach_urls", "missing")
"""Settings that no uploader needs."""
SILENT_SECONDS: Final = 1800.0
"""Longest time without a question, in seconds: a slow store's largest merge takes less."""
EXIT_SECONDS: Final = 5.0
"""Time to end for a process that has closed its channel, in seconds."""
PATIENCE_SECONDS: Final = 60.0
"""Time for which an uploader lives that is well, in seconds."""
log = structlog.get_logger(__name__)


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
        self._loop = asyncio.get_running_loop()
        self.troubles = Troubles(self._loop.time, told)
        self.process: subprocess.Popen[bytes] | None = None
        self.is_well = True
        """False after an uploader ended by itself at nothing that is known, until another one has lived."""
        self._is_stopped = False
        self._well_at = self._lived = 0.0
        self._failed_before = self._failed_now = 0

    @property
    def failed_requests(self) -> int:
        """Requests to the object store that failed, of all uploaders so far."""
        return self._failed_before + self._failed_now

    def stop(self) -> None:
        """End the uploader, if there is one."""
        self._is_stopped = True
        if self.process is not None:
            self.process.terminate()

    async def run(self, settings: TierSettings, own: Writer, token: str) -> None:
        """Run an uploader, and serve it until it ends. `own`: the writer; `token`: its mark in the object store."""
        from entrepot.broker.tiered.channel import Setup, frame

        ours, theirs = socket.socketpair()
        self._is_stopped = False
        self.process = process = _started(theirs)
        reader, writer = await asyncio.open_connection(sock=ours)
        values = {key: value for key, value in asdict(settings).items() if key not in OURS}
        began = self._loop.time()
        self._well_at = began + (0.0 if self.is_well or self._lived >= PATIENCE_SECONDS else PATIENCE_SECONDS)
        try:
            writer.writelines(frame(Setup(**values, writer=own, token=token, seed=secrets.randbits(63))))
            await self._serve(reader, writer)
        except TimeoutError:
            process.kill()
            await self._note_end(process, f"it asked nothing for {SILENT_SECONDS / 60:.0f} minutes")
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._note_end(process)
        finally:
            writer.close()
            process.terminate()
            await asyncio.shield(self._loop.run_in_executor(None, process.wait))
            self.process = None
            self._lived = self._loop.time() - began
            self._failed_before += self._failed_now
            self._failed_now = 0

    async def _note_end(self, process: subprocess.Popen[bytes], how: str = "") -> None:
        """Note by what a process ended, unless it was told to."""
        with suppress(subprocess.TimeoutExpired):
            status = await asyncio.shield(self._loop.run_in_executor(None, process.wait, EXIT_SECONDS))
            how = how or _shown(status)
        if not self._is_stopped:
            is_known = self.troubles.ended(how or "it closed its channel")
            self.is_well = self.is_well and is_known
            log.error("the uploader has ended, and is started again", how=how, work=is_known)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from entrepot.broker.tiered.channel import LENGTH, MAX_FRAME_BYTES, frame

        while True:
            async with asyncio.timeout(SILENT_SECONDS):
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                if length > MAX_FRAME_BYTES:
                    raise ConnectionError(f"a frame of {length} bytes")
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

        match name:
            case "states":
                self._failed_now = arguments[0]
                self.troubles.survived()
                if arguments[1] and self._loop.time() >= self._well_at:  # it has come round
                    self.is_well = True
                return self._states()
            case "begins":
                self.troubles.begins(msgspec.convert(arguments[0], Begun))
                return None
            case "told":
                self._told(self.troubles.with_problem(msgspec.convert(arguments[0], Progress)))
                return None
        topic, queue_id, first, end, max_bytes = arguments
        queue = self._engine.existing_queue(topic, queue_id)
        return read_whole_or_corrupted(self._engine, queue, first, end, max_bytes)

    def _states(self) -> list[TopicState]:
        found, roots, epoch = [], set(), epoch_of(self._engine)
        for topic in self._registry.topics.values():
            if is_tiered(topic):
                try:
                    found.append(state := self._state(topic, epoch))
                except Exception as fault:  # noqa: BLE001 - the others are uploaded
                    background().failed(f"state of the tier of {topic.name}", fault)
                    continue
                roots.add(state.root)
        self.troubles.keep(roots)
        return found

    def _state(self, topic: Topic, epoch: int) -> TopicState:
        queues = self._engine.dispatcher.first_queues(topic.name, topic.queues)
        root = self._root(topic)
        if self.troubles.has(root):
            self.troubles.note_firsts(topic.name, root, {queue.queue_id: queue.min_offset for queue in queues})
        return TopicState(
            topic.name,
            root,
            1000 * (topic.tier_seconds or 0),
            [self._queue_state(root, queue) for queue in queues],
            epoch,
            self._marks.of(root),
            self.troubles.caution(root),
            self.troubles.keeps_house(root),
        )

    def _queue_state(self, root: str, queue: ConsumeQueue) -> QueueState:
        hole = self._marks.given_up(root, queue.queue_id)
        first = -1 if hole is None or hole.end < queue.min_offset else hole.first  # else it is of long ago
        return QueueState(queue.queue_id, queue.min_offset, queue.visible_offset, _message_bytes(queue), first)


def _shown(status: int) -> str:
    """Return the way in which a process ended."""
    if status >= 0:
        return f"with status {status}"
    with suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"


def _started(channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start an uploader at the other end of a channel, which is closed here."""
    with channel:
        return subprocess.Popen(
            [sys.executable, "-m", "entrepot.broker.tiered.upload.process", str(channel.fileno())],
            pass_fds=[channel.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _message_bytes(queue: ConsumeQueue) -> int:
    start = max(queue.min_offset, queue.visible_offset - SAMPLE)
    count = queue.visible_offset - start
    return bytes_between(queue, start, queue.visible_offset) // count if count else 0
