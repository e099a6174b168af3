"""aio-pika, on an event loop in a thread of its own."""

from __future__ import annotations

import re
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

import aio_pika
import aiormq
from aio_pika.abc import AbstractIncomingMessage
from aiormq.exceptions import AMQPError

from tests.support.amqp.peers.peer import (
    NOTHING,
    Arguments,
    Arrival,
    Channel,
    Declared,
    Message,
    Peer,
    Properties,
    Refused,
    Returned,
)
from tests.support.mqtt.peers.loop import LOOP
from tests.support.waiting import PATIENCE_SECONDS, wait_until

T = TypeVar("T")

_CODES = {
    aiormq.exceptions.ChannelNotFoundEntity: 404,
    aiormq.exceptions.ChannelPreconditionFailed: 406,
    aiormq.exceptions.ChannelLockedResource: 405,
    aiormq.exceptions.ChannelAccessRefused: 403,
    aiormq.exceptions.ProbableAuthenticationError: 403,
    aiormq.exceptions.AuthenticationError: 403,
    aiormq.exceptions.ConnectionNotAllowed: 530,
}


def _refusal(error: BaseException) -> BaseException:
    scope = "channel" if isinstance(error, aiormq.exceptions.AMQPChannelError) else "connection"
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), 0)
    reason = error.args[0] if error.args else str(error)
    if code == 0 and (found := re.search(r"\b([345]\d\d)\b", repr(error))):
        code = int(found[1])
    return Refused(scope, code, str(reason)) if code else error


def _run(work: Coroutine[Any, Any, T], why_closed: list[BaseException] | None = None) -> T:
    """The result of `work`.  `why_closed`: what closed the channel, told instead of that it is closed."""
    try:
        return LOOP.run(work)
    except (AMQPError, RuntimeError) as error:
        if isinstance(error, aiormq.exceptions.ChannelInvalidStateError) and why_closed is not None:
            # aiormq refuses work on a closed channel from when it reads the close, and calls back later
            wait_until(lambda: why_closed, "the callback that says what closed the channel")
            raise _refusal(why_closed[0]) from error
        raise _refusal(error) from error


def _written(body: bytes, properties: Properties) -> aio_pika.Message:
    given = properties.given()
    if "timestamp" in given:
        given["timestamp"] = datetime.fromtimestamp(given["timestamp"], UTC)
    if "expiration" in given:
        given["expiration"] = int(given["expiration"]) / 1000
    given.setdefault("delivery_mode", aio_pika.DeliveryMode.NOT_PERSISTENT)
    return aio_pika.Message(body, **given)


def _read(message: AbstractIncomingMessage) -> Message:
    apart = ("type", "timestamp", "expiration")
    found = {name: getattr(message, name) for name in Properties.__dataclass_fields__ if name not in apart}
    properties = Properties(
        **found,
        type=message.type,
        timestamp=int(message.timestamp.timestamp()) if message.timestamp else None,
        expiration=str(round(float(message.expiration) * 1000)) if message.expiration else None,  # type: ignore[arg-type]
    )
    return Message(
        message.body,
        message.exchange or "",
        message.routing_key or "",
        bool(message.redelivered),
        message.delivery_tag or 0,
        properties,
        message.consumer_tag or "",
        message.message_count or 0,
    )


class AioPikaChannel(Channel):
    def __init__(self, connection: aio_pika.Connection, confirms: bool) -> None:
        super().__init__()
        self._held: dict[int, AbstractIncomingMessage] = {}
        self._why_closed: list[BaseException] = []
        self._channel = _run(self._opened(connection, confirms))
        self._transaction = None if confirms else self._channel.transaction()

    async def _opened(self, connection: aio_pika.Connection, confirms: bool) -> aio_pika.Channel:
        channel: Any = await connection.channel(publisher_confirms=confirms, on_return_raises=False)
        channel.return_callbacks.add(
            lambda channel, message: self.seen.returned.append(
                Returned(312, "NO_ROUTE", message.exchange, message.routing_key, message.body)
            )
        )
        channel.close_callbacks.add(lambda channel, error: self._why_closed.append(error) if error else None)
        under = await channel.get_underlay_channel()
        under.on_consumer_cancel_callbacks.add(lambda frame: self.seen.cancelled.append(frame.consumer_tag))
        return channel

    async def _queue(self, name: str) -> Any:
        return await self._channel.get_queue(name, ensure=False)

    async def _exchange(self, name: str) -> Any:
        return await self._channel.get_exchange(name, ensure=False) if name else self._channel.default_exchange

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return _run(work, self._why_closed)

    def publish(
        self, exchange: str, key: str, body: bytes = b"", properties: Properties = NOTHING, mandatory: bool = False
    ) -> bool:
        async def published() -> bool:
            to = await self._exchange(exchange)
            try:
                await to.publish(_written(body, properties), key, mandatory=mandatory)
            except aiormq.exceptions.DeliveryError:
                return False
            return True

        return self._run(published())

    def get(self, queue: str, no_ack: bool = False) -> Message | None:
        async def got() -> AbstractIncomingMessage | None:
            return await (await self._queue(queue)).get(no_ack=no_ack, fail=False, timeout=PATIENCE_SECONDS)

        message = self._run(got())
        if message is None:
            return None
        self._held[message.delivery_tag or 0] = message
        return _read(message)

    def consume(
        self, queue: str, *, tag: str = "", no_ack: bool = False, exclusive: bool = False, arguments: Arguments = None
    ) -> str:
        async def take(message: AbstractIncomingMessage) -> None:
            self._held[message.delivery_tag or 0] = message
            self.seen.deliveries.append(_read(message))

        async def consuming() -> str:
            return await (await self._queue(queue)).consume(take, no_ack, exclusive, arguments, tag or None)

        return self._run(consuming())

    def cancel(self, tag: str) -> None:
        async def cancelled() -> None:
            await (await self._queue("")).cancel(tag)

        self._run(cancelled())

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        async def acknowledged() -> None:
            if delivery_tag in self._held:
                await self._held[delivery_tag].ack(multiple)
            else:
                await (await self._channel.get_underlay_channel()).basic_ack(delivery_tag, multiple)

        self._run(acknowledged())

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._run(self._held[delivery_tag].nack(multiple, requeue))

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        self._run(self._held[delivery_tag].reject(requeue))

    def qos(self, count: int, whole_channel: bool = False) -> None:
        self._run(self._channel.set_qos(count, global_=whole_channel))

    def recover(self) -> None:
        async def recovered() -> None:
            await (await self._channel.get_underlay_channel()).basic_recover(requeue=True)

        self._run(recovered())

    def exchange_declare(self, name: str, kind: str = "direct", **how: Any) -> None:
        self._run(self._channel.declare_exchange(name, kind, **how))

    def exchange_delete(self, name: str, if_unused: bool = False) -> None:
        self._run(self._channel.exchange_delete(name, if_unused=if_unused))

    def exchange_bind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        async def bound() -> None:
            await (await self._exchange(destination)).bind(source, key, arguments=arguments)

        self._run(bound())

    def exchange_unbind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None:
        async def unbound() -> None:
            await (await self._exchange(destination)).unbind(source, key, arguments=arguments)

        self._run(unbound())

    def queue_declare(self, name: str = "", **how: Any) -> Declared:
        found = self._run(self._channel.declare_queue(name or None, **how)).declaration_result
        return Declared(found.queue or "", found.message_count or 0, found.consumer_count or 0)

    def queue_bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        async def bound() -> None:
            await (await self._queue(queue)).bind(exchange, key, arguments=arguments)

        self._run(bound())

    def queue_unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None:
        async def unbound() -> None:
            await (await self._queue(queue)).unbind(exchange, key, arguments=arguments)

        self._run(unbound())

    def queue_purge(self, queue: str) -> int:
        async def purged() -> Any:
            return await (await self._queue(queue)).purge()

        return int(self._run(purged()).message_count)

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        found: Any = self._run(self._channel.queue_delete(queue, if_unused=if_unused, if_empty=if_empty))
        return int(found.message_count)

    def tx_select(self) -> None:
        assert self._transaction is not None
        self._run(self._transaction.select())

    def tx_commit(self) -> None:
        assert self._transaction is not None
        self._run(self._transaction.commit())

    def tx_rollback(self) -> None:
        assert self._transaction is not None
        self._run(self._transaction.rollback())

    def close(self) -> None:
        self._run(self._channel.close())


class AioPikaPeer(Peer):
    def __init__(self, port: int, arrival: Arrival) -> None:
        self._connection: Any = _run(self._opened(port, arrival))

    async def _opened(self, port: int, arrival: Arrival) -> Any:
        return await aio_pika.connect(
            host="127.0.0.1",
            port=port,
            login=arrival.user,
            password=arrival.password,
            virtualhost=arrival.vhost,
            heartbeat=arrival.heartbeat_seconds,
            timeout=PATIENCE_SECONDS,
        )

    def channel(self, confirms: bool = False) -> Channel:
        return AioPikaChannel(self._connection, confirms)

    def close(self) -> None:
        _run(self._connection.close())

    def cut(self) -> None:
        raise NotImplementedError("aio-pika does not give its socket away")
