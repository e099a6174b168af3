"""pika's AsyncioConnection, on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pika  # type: ignore[import-untyped]
from pika.adapters.asyncio_connection import AsyncioConnection  # type: ignore[import-untyped]
from pika.exceptions import AMQPError  # type: ignore[import-untyped]

from tests.support.amqp.peers import pika_words as words
from tests.support.amqp.peers.peer import NOTHING, Arguments, Arrival, Channel, Declared, Message, Peer, Properties
from tests.support.mqtt.peers.loop import LOOP


class PikaAsyncioChannel(Channel):
    """Every verb is a callback API made one that waits: for its answer, or for the end of the channel."""

    def __init__(self, connection: AsyncioConnection, confirms: bool) -> None:
        super().__init__()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._published = 0
        self._end: Exception | None = None
        self._channel: Any = LOOP.run(self._opened(connection))
        self._confirms = confirms
        if confirms:
            self._ask(self._channel.confirm_delivery, self._on_confirm)

    async def _opened(self, connection: AsyncioConnection) -> Any:
        opened = self._future()
        channel = connection.channel(on_open_callback=lambda channel: opened.set_result(channel))
        channel.add_on_close_callback(self._on_close)
        channel.add_on_cancel_callback(lambda frame: self.seen.cancelled.append(frame.method.consumer_tag))
        channel.add_on_return_callback(
            lambda channel, method, properties, body: self.seen.returned.append(words.returned(method, body))
        )
        return await opened

    def _future(self) -> asyncio.Future[Any]:
        if self._end is not None:
            raise self._end
        made = asyncio.get_running_loop().create_future()
        self._waiting.add(made)
        made.add_done_callback(self._waiting.discard)
        return made

    def _on_close(self, channel: Any, reason: Exception) -> None:
        self._end = words.refusal(reason) or reason
        for waiting in list(self._waiting):
            if not waiting.done():
                waiting.set_exception(self._end)

    def _on_confirm(self, frame: Any) -> None:
        tag, is_ack = frame.method.delivery_tag, isinstance(frame.method, pika.spec.Basic.Ack)
        for answered in [each for each in self._answers if each == tag or (frame.method.multiple and each < tag)]:
            answer = self._answers.pop(answered)
            if not answer.done():
                answer.set_result(is_ack)

    def _ask(self, verb: Callable[..., Any], *arguments: Any, **how: Any) -> Any:
        """Call a verb with a callback, and wait for what it is called with."""

        async def asked() -> Any:
            answer = self._future()
            verb(*arguments, callback=lambda frame=None: answer.set_result(frame), **how)
            return await answer

        return LOOP.run(asked())

    def _tell(self, verb: Callable[..., Any], *arguments: Any) -> None:
        """Call a verb that has no answer."""

        async def told() -> None:
            if self._end is not None:
                raise self._end
            verb(*arguments)

        LOOP.run(told())

    def publish(
        self, exchange: str, key: str, body: bytes = b"", properties: Properties = NOTHING, mandatory: bool = False
    ) -> bool:
        async def published() -> bool:
            answer = self._future()
            self._channel.basic_publish(exchange, key, body, words.written(properties), mandatory)
            if not self._confirms:
                answer.cancel()
                return True
            self._published += 1
            self._answers[self._published] = answer
            return bool(await answer)

        return LOOP.run(published())

    def get(self, queue: str, no_ack: bool = False) -> Message | None:
        async def got() -> Message | None:
            answer = self._future()

            def empty(frame: Any) -> None:
                if not answer.done():
                    answer.set_result(None)

            self._channel.add_callback(empty, [pika.spec.Basic.GetEmpty], one_shot=True)
            self._channel.basic_get(
                queue, lambda channel, method, properties, body: answer.set_result((method, properties, body)), no_ack
            )
            found = await answer
            return words.delivered(*found) if found is not None else None

        return LOOP.run(got())

    def consume(
        self, queue: str, *, tag: str = "", no_ack: bool = False, exclusive: bool = False, arguments: Arguments = None
    ) -> str:
        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self.seen.deliveries.append(words.delivered(method, properties, body))

        frame = self._ask(self._channel.basic_consume, queue, take, no_ack, exclusive, tag or None, arguments)
        return frame.method.consumer_tag

    def cancel(self, tag: str) -> None:
        self._ask(self._channel.basic_cancel, tag)

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        self._tell(self._channel.basic_ack, delivery_tag, multiple)

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._tell(self._channel.basic_nack, delivery_tag, multiple, requeue)

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        self._tell(self._channel.basic_reject, delivery_tag, requeue)

    def qos(self, count: int, whole_channel: bool = False) -> None:
        self._ask(self._channel.basic_qos, 0, count, whole_channel)

    def recover(self) -> None:
        self._ask(self._channel.basic_recover, True)

    def exchange_declare(self, name: str, kind: str = "direct", **how: Any) -> None:
        self._ask(self._channel.exchange_declare, name, kind, **how)

    def exchange_delete(self, name: str, if_unused: bool = False) -> None:
        self._ask(self._channel.exchange_delete, name, if_unused)

    def exchange_bind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        self._ask(self._channel.exchange_bind, destination, source, key, arguments)

    def exchange_unbind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        self._ask(self._channel.exchange_unbind, destination, source, key, arguments)

    def queue_declare(self, name: str = "", **how: Any) -> Declared:
        method = self._ask(self._channel.queue_declare, name, **how).method
        return Declared(method.queue, method.message_count, method.consumer_count)

    def queue_bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        self._ask(self._channel.queue_bind, queue, exchange, key, arguments)

    def queue_unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        self._ask(self._channel.queue_unbind, queue, exchange, key, arguments)

    def queue_purge(self, queue: str) -> int:
        return self._ask(self._channel.queue_purge, queue).method.message_count

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        return self._ask(self._channel.queue_delete, queue, if_unused, if_empty).method.message_count

    def tx_select(self) -> None:
        self._ask(self._channel.tx_select)

    def tx_commit(self) -> None:
        self._ask(self._channel.tx_commit)

    def tx_rollback(self) -> None:
        self._ask(self._channel.tx_rollback)

    def close(self) -> None:
        async def closed() -> None:
            end = self._future()
            self._channel.close()
            await asyncio.wait([end])
            end.exception()  # whatever closed it

        LOOP.run(closed())


class PikaAsyncioPeer(Peer):
    def __init__(self, port: int, arrival: Arrival) -> None:
        self._connection: Any = LOOP.run(self._opened(port, arrival))

    async def _opened(self, port: int, arrival: Arrival) -> Any:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Any] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        AsyncioConnection(
            words.parameters(port, arrival),
            on_open_callback=opened.set_result,
            on_open_error_callback=lambda connection, error: opened.set_exception(_refused(error)),
            on_close_callback=lambda connection, reason: self._closed.set_result(None),
            custom_ioloop=loop,
        )
        return await opened

    def channel(self, confirms: bool = False) -> Channel:
        return PikaAsyncioChannel(self._connection, confirms)

    def close(self) -> None:
        async def closed() -> None:
            if self._connection.is_open:
                self._connection.close()
            await self._closed

        LOOP.run(closed())

    def cut(self) -> None:
        async def cut() -> None:
            self._connection._transport._sock.shutdown(socket.SHUT_RDWR)
            await self._closed

        LOOP.run(cut())


def _refused(error: BaseException) -> BaseException:
    """The refusal inside what pika's connection workflow wraps around it."""
    seen: list[BaseException] = [error]
    for each in seen:
        if isinstance(each, AMQPError) and (found := words.refusal(each)) is not None:
            return found
        seen += [inner for inner in (getattr(each, "exception", None), each.__cause__) if inner is not None]
        seen += [inner for inner in getattr(each, "exceptions", ()) if inner is not None]
    return error
