"""Writes that go together: while some are under way, what comes meanwhile is one transaction of transactions.

etcd syncs each transaction of its own, some 1,000 a second, and a burst of CONNECTs is one conditional write each.
Nested transactions have their own conditions and outcomes, so one that is refused harms no other, and nothing is halved
and tried again.  A write alone goes at once, as it is.

Invariant: two writes of one key are never in one transaction, which etcd refuses, and keep their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.etcd import rpc_pb2 as pb

MAX_UNDER_WAY: Final = 4
"""Transactions under way at one time."""
MAX_TOGETHER: Final = 500
MAX_OPERATIONS: Final = 4_000
"""Operations of a transaction with all that are in it; etcd's limit is 10,000 (`--max-txn-ops`)."""
MAX_BYTES: Final = 1 << 20
MAX_WAITING_BYTES: Final = 64 << 20
"""Writes that wait; more is refused as unavailable."""

Ask = Callable[[pb.TxnRequest], Awaitable[pb.TxnResponse]]


@dataclass(eq=False, slots=True)
class _Write:
    """A write that waits for its answer."""

    question: pb.TxnRequest
    keys: frozenset[bytes]
    size: int
    answer: asyncio.Future[pb.TxnResponse] = field(repr=False)

    @property
    def operations(self) -> int:
        return len(self.question.compare) + max(len(self.question.success), len(self.question.failure)) + 1

    @property
    def is_small(self) -> bool:
        return self.size <= MAX_BYTES // 2 and self.operations <= MAX_OPERATIONS // 2


class Combined:
    """Asks for writes by `ask`.  Each gets the answer that it would have alone, at the revision of all that it went
    with."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._waiting: deque[_Write] = deque()
        self._waiting_bytes = 0
        self._busy: set[bytes] = set()
        self._under_way = 0
        self._is_closed = False

    async def write(self, question: pb.TxnRequest, keys: Iterable[bytes]) -> pb.TxnResponse:
        """Return etcd's answer to a write of keys.  Raises what the question raises, UNAVAILABLE."""
        size = question.ByteSize()
        if self._is_closed or self._waiting_bytes + size > MAX_WAITING_BYTES:
            why = "the connections are closed" if self._is_closed else "too many writes wait for etcd"
            raise EntrepotError(Code.UNAVAILABLE, why)
        write = _Write(question, frozenset(keys), size, asyncio.get_running_loop().create_future())
        self._waiting.append(write)
        self._waiting_bytes += size
        self._send_waiting()
        return await write.answer

    @property
    def waiting(self) -> int:
        """Writes that wait."""
        return len(self._waiting)

    def close(self) -> None:
        """Refuse what waits; what is under way ends with its connection."""
        self._is_closed = True
        for write in self._waiting:
            _fail([write], EntrepotError(Code.UNAVAILABLE, "the connections are closed"))
        self._waiting.clear()

    def _send_waiting(self) -> None:
        while self._under_way < MAX_UNDER_WAY and (batch := self._next()):
            self._under_way += 1
            self._busy |= {key for write in batch for key in write.keys}
            background().start("writes to etcd", self._send(batch))

    def _next(self) -> list[_Write]:
        """Take writes that may go together.  One of a key that is under way, or waits before it, waits."""
        batch: list[_Write] = []
        left: deque[_Write] = deque()
        taken, size, operations = set(self._busy), 0, 0
        while self._waiting:
            write = self._waiting.popleft()
            if write.answer.done():  # nobody waits for it any more
                self._waiting_bytes -= write.size
                continue
            size, operations = size + write.size, operations + write.operations
            fits = not batch or (
                len(batch) < MAX_TOGETHER
                and size <= MAX_BYTES
                and operations <= MAX_OPERATIONS
                and write.is_small
                and batch[0].is_small
            )
            if not fits:
                left.append(write)
                break
            (left if write.keys & taken else batch).append(write)
            taken |= write.keys
        left.extend(self._waiting)
        self._waiting = left
        self._waiting_bytes -= sum(write.size for write in batch)
        return batch

    async def _send(self, batch: list[_Write]) -> None:
        try:
            await self._answer(batch)
        except Exception as fault:  # noqa: BLE001 - a fault of ours, too: who waits is told
            _fail(batch, fault)
        except asyncio.CancelledError:
            _fail(batch, EntrepotError(Code.OUTCOME_UNKNOWN, "the connections were closed: unknown outcome"))
            raise
        finally:
            self._under_way -= 1
            self._busy -= {key for write in batch for key in write.keys}
            self._send_waiting()

    async def _answer(self, batch: list[_Write]) -> None:
        if len(batch) == 1:
            _tell(batch[0], await self._ask(batch[0].question))
            return
        together = pb.TxnRequest(success=[pb.RequestOp(request_txn=write.question) for write in batch])
        try:
            answer = await self._ask(together)
        except EntrepotError as refusal:
            if refusal.code is not Code.BAD_REQUEST:
                raise
            for write in batch:  # certainly not done: one of them is odd
                try:
                    _tell(write, await self._ask(write.question))
                except EntrepotError as own:
                    _fail([write], own)
            return
        for write, each in zip(batch, answer.responses, strict=True):
            each.response_txn.header.revision = answer.header.revision
            _tell(write, each.response_txn)


def _tell(write: _Write, answer: pb.TxnResponse) -> None:
    if not write.answer.done():
        write.answer.set_result(answer)


def _fail(batch: Iterable[_Write], fault: Exception) -> None:
    for write in batch:
        if not write.answer.done():
            write.answer.set_exception(fault.with_traceback(None))
