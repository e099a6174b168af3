"""A small etcd for tests: the calls that our client makes, over one state that several members may share.

It is written from the protocol: revisions, transactions with their limits, watches that begin at a revision, progress,
compaction, users.  `faults` say what happens to the next calls of a member.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import grpc
import grpc.aio

from entrepot.domain.background import cancel_tasks
from entrepot.protocols.etcd import kv_pb2 as kv
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import AUTHENTICATE, RANGE, STATUS, TRANSACTION, Call

FIRST_REVISION: Final = 1
MAX_REQUEST_BYTES: Final = 9_437_184

Context = Any
"""grpc.aio's context of a call; its stubs leave the type open."""


@dataclass
class Fault:
    """A fault of one call: its status and text; none: it hangs.  `is_done`: the work is done all the same."""

    status: grpc.StatusCode | None
    text: str = ""
    is_done: bool = False


@dataclass
class EtcdState:
    """Keys and history, which all members agree on."""

    revision: int = FIRST_REVISION
    cluster: int = 7
    compacted: int = 0
    keys: dict[bytes, kv.KeyValue] = field(default_factory=dict)
    history: list[tuple[int, list[kv.Event]]] = field(default_factory=list)
    max_operations: int = 10_000
    version: str = "3.6.8"
    user: str = ""
    """A user who must log in with the password `right`; empty: nobody must."""
    tokens: set[str] = field(default_factory=set)
    logins: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def header(self) -> pb.ResponseHeader:
        return pb.ResponseHeader(cluster_id=self.cluster, revision=self.revision)

    def at(self, key: bytes, revision: int) -> kv.KeyValue | None:
        """The key-value as it was at a revision."""
        if not revision or revision >= self.revision:
            return self.keys.get(key)
        found: kv.KeyValue | None = None
        for number, events in self.history:
            for event in events if number <= revision else ():
                if event.kv.key == key:
                    found = None if event.type == kv.Event.DELETE else event.kv
        return found

    def do(self, operations: Sequence[pb.RequestOp]) -> list[pb.ResponseOp]:
        """Carry operations out; writes among them, also in nested transactions, make one revision."""
        events: list[kv.Event] = []
        changed = _keys_changed(operations)
        assert len(changed) == len(set(changed)), "etcd refuses a transaction that changes a key twice"
        answers = self._done(operations, events)
        if events:
            self.revision += 1
            self.history.append((self.revision, events))
        return answers

    def _done(self, operations: Sequence[pb.RequestOp], events: list[kv.Event]) -> list[pb.ResponseOp]:
        answers: list[pb.ResponseOp] = []
        for each in operations:
            if each.HasField("request_range"):
                answers.append(pb.ResponseOp(response_range=self.range(each.request_range)))
            elif each.HasField("request_txn"):
                holds = all(map(self.is_true, each.request_txn.compare))
                chosen = each.request_txn.success if holds else each.request_txn.failure
                nested = pb.TxnResponse(succeeded=holds, responses=self._done(chosen, events))
                nested.header.SetInParent()
                answers.append(pb.ResponseOp(response_txn=nested))
            elif each.HasField("request_put"):
                put = kv.KeyValue(key=each.request_put.key, value=each.request_put.value)
                put.mod_revision = self.revision + 1
                self.keys[put.key] = put
                events.append(kv.Event(kv=put))
                answers.append(pb.ResponseOp(response_put=pb.PutResponse()))
            else:
                gone = self.keys.pop(each.request_delete_range.key, None)
                if gone is not None:
                    deleted = kv.KeyValue(key=gone.key, mod_revision=self.revision + 1)
                    events.append(kv.Event(type=kv.Event.DELETE, kv=deleted))
                answers.append(pb.ResponseOp(response_delete_range=pb.DeleteRangeResponse()))
        return answers

    def range(self, asked: pb.RangeRequest) -> pb.RangeResponse:
        if not asked.range_end:
            found = [kept for kept in [self.at(asked.key, asked.revision)] if kept is not None]
        else:
            names = sorted(each for each in self.keys if asked.key <= each < asked.range_end)
            found = [kept for name in names if (kept := self.at(name, asked.revision)) is not None]
        shown = [] if asked.count_only else found[: asked.limit or None]
        if asked.keys_only:
            shown = [kv.KeyValue(key=each.key, mod_revision=each.mod_revision) for each in shown]
        return pb.RangeResponse(header=self.header(), kvs=shown, more=len(shown) < len(found), count=len(found))

    def is_true(self, compare: pb.Compare) -> bool:
        kept = self.keys.get(compare.key)
        return (0 if kept is None else kept.mod_revision) == compare.mod_revision


def _keys_changed(operations: Sequence[pb.RequestOp]) -> list[bytes]:
    found: list[bytes] = []
    for each in operations:
        if each.HasField("request_txn"):
            found += _keys_changed(each.request_txn.success)
        elif each.HasField("request_put"):
            found.append(each.request_put.key)
        elif each.HasField("request_delete_range"):
            found.append(each.request_delete_range.key)
    return found


class EtcdServer:
    """A member.  `asked` counts its calls; `questions` are those of transactions and reads, `wanted` of watches."""

    def __init__(self, state: EtcdState) -> None:
        self.state = state
        self.asked: Counter[str] = Counter()
        self.questions: list[Any] = []
        self.wanted: list[pb.WatchCreateRequest] = []
        self.metadata: list[dict[str, str]] = []
        self.faults: dict[str, list[Fault]] = {}
        self.before: Callable[[str], Awaitable[None]] | None = None
        """Awaited before a call of this name is carried out."""
        self.may_begin = asyncio.Event()
        self.may_begin.set()
        self.fragment_events = 0
        """Events of one fragment; 0: responses are whole."""
        self.is_silent = False
        """True while streams hang at the next change."""
        self.streams: set[asyncio.Task[None]] = set()
        self._server: grpc.aio.Server | None = None
        self.address = ""

    async def start(self) -> None:
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", MAX_REQUEST_BYTES)])
        calls: list[tuple[Call[Any, Any], Callable[[Any, Context], Awaitable[Any]]]] = [
            (RANGE, self._range),
            (TRANSACTION, self._transaction),
            (AUTHENTICATE, self._login),
            (STATUS, self._status),
        ]
        methods = {each.name: self._handled(each, serve) for each, serve in calls}
        methods["etcdserverpb.Watch/Watch"] = grpc.stream_stream_rpc_method_handler(
            self._watch, pb.WatchRequest.FromString, pb.WatchResponse.SerializeToString
        )
        services: dict[str, dict[str, Any]] = {}
        for name, method in methods.items():
            service, _, short = name.partition("/")
            services.setdefault(service, {})[short] = method
        for service, found in services.items():
            self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, found),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        await self._server.start()

    async def close(self) -> None:
        assert self._server is not None
        await self._server.stop(None)

    def fail(self, call: Call[Any, Any], *faults: Fault) -> None:
        """The next calls fail so."""
        self.faults.setdefault(call.name, []).extend(faults)

    def end_streams(self) -> None:
        """End all streams of watches."""
        for task in self.streams:
            task.cancel()

    # -- calls ---------------------------------------------------------------------------------------------------

    def _handled(self, call: Call[Any, Any], serve: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def answer(question: Any, context: Context) -> Any:
            self.asked[call.name] += 1
            self._note(context)
            fault = faults.pop(0) if (faults := self.faults.get(call.name)) else None
            if fault is not None and not fault.is_done:
                await _fail(fault, context)
            if self.before is not None:
                await self.before(call.name)
            answered = await serve(question, context)
            if fault is not None:
                await _fail(fault, context)
            return answered

        return grpc.unary_unary_rpc_method_handler(answer, call.question.FromString, call.answer.SerializeToString)

    def _note(self, context: Context) -> None:
        self.metadata.append({name: str(value) for name, value in context.invocation_metadata() or ()})

    async def _check_user(self, context: Context) -> None:
        if not self.state.user:
            return
        token = dict(context.invocation_metadata()).get("token")
        if token is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "etcdserver: user name is empty")
        if token not in self.state.tokens:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")

    async def _check_revision(self, revision: int, context: Context) -> None:
        if 0 < revision < self.state.compacted:
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")

    async def _range(self, asked: pb.RangeRequest, context: Context) -> pb.RangeResponse:
        await self._check_user(context)
        await self._check_revision(asked.revision, context)
        if not asked.count_only:
            self.questions.append(asked)
        return self.state.range(asked)

    async def _transaction(self, asked: pb.TxnRequest, context: Context) -> pb.TxnResponse:
        await self._check_user(context)
        self.questions.append(asked)
        if max(len(asked.compare), len(asked.success), len(asked.failure)) > self.state.max_operations:
            text = "etcdserver: too many operations in txn request"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        for each in asked.success:
            await self._check_revision(each.request_range.revision, context)
        holds = all(map(self.state.is_true, asked.compare))
        responses = self.state.do(asked.success if holds else asked.failure)
        async with self.state.changed:
            self.state.changed.notify_all()
        return pb.TxnResponse(header=self.state.header(), succeeded=holds, responses=responses)

    async def _login(self, asked: pb.AuthenticateRequest, context: Context) -> pb.AuthenticateResponse:
        state = self.state
        if not state.user:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: authentication is not enabled")
        if (asked.name, asked.password) != (state.user, "right"):
            text = "etcdserver: authentication failed, invalid user ID or password"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        state.logins += 1
        state.tokens.add(f"token {state.logins}")
        return pb.AuthenticateResponse(token=f"token {state.logins}")

    async def _status(self, asked: pb.StatusRequest, context: Context) -> pb.StatusResponse:
        await self._check_user(context)
        return pb.StatusResponse(header=self.state.header(), version=self.state.version)

    # -- watches -------------------------------------------------------------------------------------------------

    async def _watch(self, requests: AsyncIterator[pb.WatchRequest], context: Context) -> None:
        self._note(context)
        await self._check_user(context)
        wanted = (await anext(aiter(requests))).create_request
        self.wanted.append(wanted)
        await self.may_begin.wait()
        await context.write(pb.WatchResponse(header=self.state.header(), created=True))
        if wanted.start_revision <= self.state.compacted:
            gone = pb.WatchResponse(header=self.state.header(), canceled=True)
            gone.compact_revision = self.state.compacted
            await context.write(gone)
            return
        stream = _Stream(self, wanted, context)
        tasks = {asyncio.create_task(stream.answer(requests)), asyncio.create_task(stream.tell())}
        self.streams |= tasks
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.streams -= tasks
            await cancel_tasks(*tasks)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "Stream removed (recvmsg: Connection reset by peer)")


class _Stream:
    """One stream with one watch."""

    def __init__(self, server: EtcdServer, wanted: pb.WatchCreateRequest, context: Context) -> None:
        self._server, self._state, self._wanted, self._context = server, server.state, wanted, context
        self._next = wanted.start_revision

    async def answer(self, requests: AsyncIterator[pb.WatchRequest]) -> None:
        """Answer questions for progress, once all is told."""
        async for request in requests:
            is_synced = self._next > self._state.revision >= self._wanted.start_revision
            if request.HasField("progress_request") and is_synced:
                await self._context.write(pb.WatchResponse(header=self._state.header(), watch_id=-1))

    async def tell(self) -> None:
        """Tell what there is, and wait for more."""
        while True:
            async with self._state.changed:
                await self._state.changed.wait_for(lambda: self._state.revision >= self._next)
            found = [
                event
                for number, events in self._state.history
                for event in events
                if number >= self._next and self._wanted.key <= event.kv.key < self._wanted.range_end
            ]
            if self._server.is_silent:
                await asyncio.Event().wait()  # this stream hangs for good
            self._next = self._state.revision + 1
            await self._write(found)

    async def _write(self, events: list[kv.Event]) -> None:
        size = self._server.fragment_events or max(len(events), 1)
        for begin in range(0, len(events), size):
            is_last = begin + size >= len(events)
            part = pb.WatchResponse(header=self._state.header(), events=events[begin : begin + size])
            part.fragment = not is_last
            await self._context.write(part)


async def _fail(fault: Fault, context: Context) -> None:
    if fault.status is None:
        await asyncio.Event().wait()
    await context.abort(fault.status, fault.text)
