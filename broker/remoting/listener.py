"""RemotingListener: the answering end, on a listening socket.

The operations are those of a `Service`. A call is a task. It ends when it is done, when its client cancels it, when its
deadline passes, or when the connection ends.

Limits: connections, time for the greeting, silence, bytes of unanswered requests (credit), bytes waiting to be written.
A client that does not read is not read from either.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from typing import Any, cast

import structlog

from entrepot.broker.remoting.listener_limits import DEFAULT_LIMITS, ListenerLimits
from entrepot.broker.remoting.service import Call, OpenStream, Service
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.closing import close_once
from entrepot.domain.descriptors import TOO_MANY, descriptor_of, descriptors
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.all_operations import OPERATIONS
from entrepot.protocols.wire.authentication import NONCE_BYTES
from entrepot.protocols.wire.connection import Cancelled, Credited, Goodbye, Greeted, Requested, ServerConnection
from entrepot.protocols.wire.frames import HEADER_SIZE, RemotingError
from entrepot.protocols.wire.operation import Operation
from entrepot.protocols.wire.operations import NOT_HERE
from entrepot.protocols.wire.values import encode

log = structlog.get_logger(__name__)


class ServerStream:
    """A stream to a client. `send` is for as long as `has_credit`; `on_credit` is called when there is credit again."""

    def __init__(self, channel: ServerChannel, id_: int, credit: int) -> None:
        self.channel = channel
        self._id = id_
        self.credit = credit
        self.on_credit: Callable[[], None] = lambda: None
        self.on_close: Callable[[], None] = lambda: None

    @property
    def has_credit(self) -> bool:
        return self.credit > 0

    def send(self, payload: bytes) -> None:
        self.credit -= HEADER_SIZE + len(payload)
        self.channel.send_item(self._id, payload)

    def end(self, error: EntrepotError) -> None:
        """End the stream; `on_close` is called."""
        self.channel.end_stream(self._id, error)


class RemotingListener:
    """A listener that accepts connections until it is closed."""

    def __init__(
        self,
        service: Service,
        listener: socket.socket,
        who: str,
        cluster: str = "",
        trust: WireTrust | None = None,
        limits: ListenerLimits = DEFAULT_LIMITS,
    ) -> None:
        """Raise BAD_REQUEST if strangers could reach it, and nothing tells them from members of the cluster."""
        self.trust = (trust or WireTrust()).at(listener)
        self.service = service
        self.limits = limits
        self._socket = listener
        self.who, self.cluster = who, cluster
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self.channels: set[ServerChannel] = set()
        self.strangers: dict[ServerChannel, None] = {}
        """Channels that have not greeted, in the order in which they came."""
        self._sweep: asyncio.TimerHandle | None = None
        self.is_closed = False

    async def start(self) -> None:
        tls = self.trust.tls
        if self._socket.family == socket.AF_UNIX:
            self._server = await self._loop.create_unix_server(lambda: ServerChannel(self), sock=self._socket)
        else:
            # Connections inherit it: without it, an answer that follows another waits 40 ms for the peer's kernel.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._server = await self._loop.create_server(
                lambda: ServerChannel(self),
                sock=self._socket,
                ssl=None if tls is None else tls.context,
                ssl_handshake_timeout=None if tls is None else self.limits.greeting_seconds,
            )
        self._sweep = self._loop.call_later(self.limits.sweep_seconds, self._close_silent)

    def greeting(self, shared: bytes) -> ServerConnection:
        """Return a new connection. `shared`: what both ends of TLS share."""
        window, trust, nonce = self.limits.window_bytes, self.trust, secrets.token_bytes(NONCE_BYTES)
        may = trust.is_network_trusted
        return ServerConnection(self.who, window, self.cluster, trust.secret, nonce, shared, may_be_without=may)

    async def close(self, goodbye: str = "the server stops") -> None:
        """Stop accepting, say goodbye to everybody, close."""
        self.is_closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        for channel in tuple(self.channels):
            channel.goodbye(goodbye)

    def _close_silent(self) -> None:
        now = self._loop.time()
        self.trust.refresh()
        for channel in tuple(self.channels):
            channel.check_silence(now)
        self._sweep = self._loop.call_later(self.limits.sweep_seconds, self._close_silent)


class ServerChannel(asyncio.Protocol):
    """The connection of one client."""

    def __init__(self, listener: RemotingListener) -> None:
        self._listener = listener
        self._service = listener.service
        self._limits = listener.limits
        self._connection = listener.greeting(b"")
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._streams: dict[int, ServerStream] = {}
        self._is_flushing = False
        self._unflushed = 0
        self._is_writable = asyncio.Event()
        self._is_writable.set()
        self._since = self._heard = self._loop.time()
        self.peer = ""
        self.before_answer: Callable[[], None] = lambda: None
        """Called before each answer to a call: the call's changes are reported first."""

    @property
    def who(self) -> str:
        """The client's name for itself; empty before its greeting."""
        hello = self._connection.hello
        return "" if hello is None else hello.who

    @property
    def silence(self) -> float:
        """Seconds since the last byte came."""
        return self._loop.time() - self._heard

    # -- the socket ----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._listener.is_closed:  # its handshake took longer: nobody would look after it
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.write_bytes)
        address = transport.get_extra_info("peername")
        self.peer = f"{address[0]}:{address[1]}" if isinstance(address, tuple) else ""
        self._listener.channels.add(self)
        self._listener.strangers[self] = None
        shared, stranger = self._listener.trust.met(transport)
        self._connection = self._listener.greeting(shared)
        if stranger:
            self.goodbye(stranger)
        elif len(self._listener.strangers) > self._limits.strangers:  # the first has had most time for it
            next(iter(self._listener.strangers)).goodbye("too many connections have not greeted")
        elif len(self._listener.channels) > self._limits.connections:
            self.goodbye(f"more than {self._limits.connections} connections")
        elif descriptors().is_spent(descriptor_of(transport)):
            self.goodbye(TOO_MANY)

    def data_received(self, data: bytes) -> None:
        self._heard = self._loop.time()
        try:
            for event in self._connection.receive_data(data):
                if isinstance(event, Requested):
                    self._take(event)
                elif isinstance(event, Cancelled):
                    self._cancelled(event.id)
                elif isinstance(event, Credited):
                    self._credited(event)
                elif isinstance(event, Greeted):
                    self._listener.strangers.pop(self, None)
                elif isinstance(event, Goodbye):
                    self._close()
                    return
        except RemotingError as error:
            log.warning("a client breaks the rules of the wire", seldom="remoting", peer=self.peer, problem=str(error))
            self._close()
            return
        self._flush_soon()

    def pause_writing(self) -> None:
        self._is_writable.clear()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_writable.set()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._listener.channels.discard(self)
        self._listener.strangers.pop(self, None)
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.on_close()
        self._service.on_closed(self)

    def goodbye(self, text: str) -> None:
        """Send the reason, and close."""
        self._connection.goodbye(text)
        self._close()

    def end_calls(self) -> None:
        """Drop the answers of all calls under way."""
        for task in self._tasks.values():
            task.cancel()

    def check_silence(self, now: float) -> None:
        if self._transport is not None and self._transport.is_closing():
            self._transport.abort()  # it has not read the goodbye, and the rest would wait for ever
        elif self._connection.hello is None and now - self._since > self._limits.greeting_seconds:
            self.goodbye("no greeting in time")
        elif now - self._heard > self._limits.silence_seconds:
            self.goodbye("silent for too long")

    def _close(self) -> None:
        self._flush()
        if self._transport is not None:
            close_once(self._transport)

    # -- requests ------------------------------------------------------------------------------------------------

    def _take(self, request: Requested) -> None:
        """Take one request. Raises RemotingError, with the goodbye queued."""
        try:
            self._requested(request)
        except RemotingError as error:
            self._connection.goodbye(str(error))
            raise
        except Exception:  # one request's fault is not the others'
            log.exception("a request failed", operation=request.operation, peer=self.peer)
            self.refuse(request.id, EntrepotError(Code.INTERNAL_ERROR, f"operation {request.operation} failed"))

    def _requested(self, request: Requested) -> None:
        operation = OPERATIONS.get(request.operation)
        service = self._service
        try:
            if operation is not None and (role := self._connection.role) is not None and role not in operation.callers:
                raise EntrepotError(Code.FORBIDDEN, f"{operation.name} is not for a {role}")
            if operation in service.direct:
                service.direct[operation](self, request)
            elif operation in service.calls:
                self._begin_call(operation, service.calls[operation], request)
            elif operation in service.streams:
                self._begin_stream(operation, service.streams[operation], request)
            else:
                raise EntrepotError(Code.BAD_REQUEST, f"operation {request.operation} {NOT_HERE}")
        except EntrepotError as refusal:
            self.refuse(request.id, refusal)

    def _begin_call(self, operation: Operation, call: Call, request: Requested) -> None:
        arguments = operation.asked_by(self._connection.role, request.payload)
        task = self._loop.create_task(self._run(operation, call, arguments, request))
        self._tasks[request.id] = task

    async def _run(self, operation: Operation, call: Call, arguments: tuple[Any, ...], request: Requested) -> None:
        timer = None
        if request.amount:
            timer = self._loop.call_later(request.amount / 1000, self._expired, request.id, operation)
        try:
            if not self._is_writable.is_set():  # answers are larger than requests: those read already wait, too
                await self._is_writable.wait()
            result = await call(*arguments)
            self.before_answer()
            self.answer(request.id, result if isinstance(result, bytes) else encode(result))
        except EntrepotError as refusal:
            self.before_answer()
            self.refuse(request.id, refusal)
        except Exception:
            log.exception("a request failed", operation=operation.name, peer=self.peer)
            self.refuse(request.id, EntrepotError(Code.INTERNAL_ERROR, f"{operation.name} failed"))
        finally:
            if timer is not None:
                timer.cancel()
            if self._tasks.get(request.id) is asyncio.current_task():
                del self._tasks[request.id]

    def _expired(self, id_: int, operation: Operation) -> None:
        task = self._tasks.pop(id_, None)
        if task is not None:
            task.cancel()
            text = f"{operation.name} took longer than its deadline"
            if operation.is_idempotent:
                self.refuse(id_, EntrepotError(Code.REQUEST_TIMEOUT, text))
            else:  # it was begun, and may have been done
                self.refuse(id_, EntrepotError(Code.OUTCOME_UNKNOWN, f"{text}: its outcome is unknown"))

    def _begin_stream(self, operation: Operation, open_stream: OpenStream, request: Requested) -> None:
        arguments = operation.asked_by(self._connection.role, request.payload)
        stream = self._streams[request.id] = ServerStream(self, request.id, request.amount)
        try:
            open_stream(stream, *arguments)
        except EntrepotError:
            self._streams.pop(request.id, None)
            raise

    def _cancelled(self, id_: int) -> None:
        task = self._tasks.pop(id_, None)
        if task is not None:
            task.cancel()
        stream = self._streams.pop(id_, None)
        if stream is not None:
            stream.on_close()

    def _credited(self, event: Credited) -> None:
        stream = self._streams.get(event.id)
        if stream is not None:
            stream.credit += event.size
            if stream.has_credit:
                stream.on_credit()

    # -- answers -------------------------------------------------------------------------------------------------

    def answer(self, id_: int, payload: bytes) -> None:
        self._connection.answer(id_, payload)
        self._unflushed += len(payload)
        if self._unflushed > self._limits.write_bytes:
            self._flush()
        else:
            self._flush_soon()

    def refuse(self, id_: int, error: EntrepotError) -> None:
        self._connection.refuse(id_, error)
        self._flush_soon()

    def send_item(self, id_: int, payload: bytes) -> None:
        self._connection.item(id_, payload)
        self._flush_soon()

    def end_stream(self, id_: int, error: EntrepotError) -> None:
        stream = self._streams.pop(id_, None)
        if stream is not None:
            stream.on_close()
            self.refuse(id_, error)

    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        self._unflushed = 0
        data = self._connection.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)
