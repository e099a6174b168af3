"""Answers: the calls of one connection from their start to their end, and the room for what they answer.

Each call is a task, which ends with its call.  Invariant: bytes of answers without room are bounded for each
connection: a call adds one message, and only where less than the limit waits.
"""

from __future__ import annotations

import contextlib
import math
from collections import OrderedDict

import structlog

from entrepot.gateway.rocketmq.grpc.call import Call, CallOverError, Conversing, Unary
from entrepot.gateway.rocketmq.grpc.terms import GrpcTerms
from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.grpc.messages import framed
from entrepot.protocols.grpc.status import HEAD, OK_TRAILERS, Status, trailers
from entrepot.protocols.http2.connection import ServerConnection
from entrepot.protocols.http2.events import Drained
from entrepot.protocols.http2.frames import ErrorCode

log = structlog.get_logger(__name__)


class Answers:
    """The answering half of a conversation."""

    __slots__ = (
        "_calls",
        "_driver",
        "_held",
        "_is_flushing",
        "_machine",
        "_most_waiting",
        "_terms",
        "_waiting",
        "loop",
    )

    def __init__(self, terms: GrpcTerms) -> None:
        self._terms, self.loop = terms, terms.loop
        self._machine = ServerConnection(terms.http2, terms.loop.time())
        self._driver: Driver | None = None
        self._calls: dict[int, Call] = {}
        self._held = 0
        """Bytes that are kept of requests."""
        self._most_waiting = terms.write_limit
        self._waiting: OrderedDict[Call, None] = OrderedDict()
        """Calls that wait until answers of others have left."""
        self._is_flushing = False

    def now(self) -> float:
        return self.loop.time()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _start(self, call: Call) -> None:
        self._held -= call.held  # the method has its request now
        call.held = 0
        task = call.task = self.loop.create_task(self._run(call))
        tasks = self._terms.tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def _run(self, call: Call) -> None:
        method = call.method
        try:
            if isinstance(method, Unary):
                answer = framed(method.encode(await method.work(method.decode(call.taken_message()), call)))
                if self._is_crowded:
                    await self._room(call)
                if not (call.is_over or self._machine.answer(call.number, HEAD, answer, OK_TRAILERS)):
                    call.has_begun = True
                    self._stall(call)
            elif isinstance(method, Conversing):
                async with contextlib.aclosing(method.work(call)) as answers:
                    async for each in answers:
                        await call.write(each)
                self.finish(call, Status.OK, "")
            else:
                await method.work(method.decode(call.taken_message()), call)
                self.finish(call, Status.OK, "")
        except CallOverError:
            pass
        except Exception as error:
            log.exception("a call failed", seldom=type(error).__name__)
            self.finish(call, Status.UNKNOWN, "the call could not be served")
        finally:
            call.task = None  # a cancelled one keeps its frames, and they the call
        if not call.is_over and call.stalled_until == math.inf:
            self._drop(call)
        self._flush_soon()

    async def write(self, call: Call, message: bytes) -> None:
        """Send one of several answers (see `Call.write`)."""
        machine, number = self._machine, call.number
        if self._is_crowded:
            await self._room(call)
        if call.is_over:
            raise CallOverError
        if not call.has_begun:
            call.has_begun = True
            machine.begin(number, HEAD)
        is_sent = machine.send(number, framed(message))
        self._flush_soon()
        if not is_sent:
            self._stall(call)
            await call.wait_for_room()
            if call.is_over:
                raise CallOverError

    def finish(self, call: Call, status: Status, text: str) -> None:
        """End a call with a status, behind what waits of its answer."""
        if call.is_over:
            return
        block = trailers(status, text)
        if self._machine.end(call.number, block if call.has_begun else HEAD + block):
            self._drop(call)
        else:
            self._stall(call)
        self._flush_soon()

    def _cancel(self, call: Call) -> None:
        """End a call whose stream, or connection, is gone."""
        self._drop(call)
        self._cancel_task(call)
        call.has_request()
        call.has_room()

    def _cancel_task(self, call: Call) -> None:
        task, call.task = call.task, None
        if task is not None:
            task.cancel()

    def _drop(self, call: Call) -> None:
        if call.is_over:
            return
        call.is_over = True
        self._held -= call.held
        del self._calls[call.number]
        self._waiting.pop(call, None)
        self._terms.wheel.remove(call)
        if self._machine.is_drained and self._driver is not None:
            self._flush_soon()
            self.loop.call_soon(self.end_drained)

    # -- room ----------------------------------------------------------------------------------------------------------

    @property
    def _is_crowded(self) -> bool:
        """True if so much waits on this connection that no call adds to it."""
        return bool(self._waiting) or self._machine.waiting_bytes > self._most_waiting

    async def _room(self, call: Call) -> None:
        """Wait for a call's turn to add to what waits."""
        self._waiting[call] = None
        self._stall(call)
        await call.wait_for_room()

    def _let_next(self) -> None:
        """Wake the call that may add to what waits.  It adds one message; then it is the next one's turn."""
        if self._waiting and self._machine.waiting_bytes <= self._most_waiting:
            call, _ = self._waiting.popitem(last=False)
            call.stalled_until = math.inf
            call.has_room()
            self.loop.call_soon(self._let_next)

    def _drained(self, event: Drained) -> None:
        call = self._calls.get(event.stream)
        if call is None:
            return
        call.stalled_until = math.inf
        if event.is_over:
            self._drop(call)
        else:
            call.has_room()

    def _stall(self, call: Call) -> None:
        """Note that a call waits for its client to read."""
        call.stalled = self._machine.waiting_on(call.number)
        call.stalled_until = self.now() + self._terms.request_seconds
        self._look_again(call)

    def _look_again(self, call: Call) -> None:
        self._terms.wheel.remove(call)
        self._terms.wheel.add(call)

    def call_timed_out(self, call: Call, now: float) -> None:
        """End a call at its deadline, or one whose client neither sends nor reads."""
        waiting = self._machine.waiting_on(call.number)
        if now >= call.until and not waiting:
            self._stop(call, Status.DEADLINE_EXCEEDED, "the deadline is over")
        elif now >= call.upload_until:
            self._stop(call, Status.DEADLINE_EXCEEDED, "the request did not come in time")
        elif now >= call.until or waiting >= call.stalled:
            self._machine.reset(call.number, ErrorCode.CANCEL)
            self._cancel(call)
        else:
            self._stall(call)  # it reads, if slowly
        self._flush_soon()

    def _stop(self, call: Call, status: Status, text: str) -> None:
        self.finish(call, status, text)
        self._cancel_task(call)

    def end_drained(self) -> None:
        """Close the connection if its client was told to go, and all calls have ended."""
        if self._machine.is_drained and self._driver is not None:
            self._driver.close()

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._driver is not None:
            self._driver.flush()
