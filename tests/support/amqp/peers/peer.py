"""The words in which tests speak to other people's AMQP clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from tests.support.waiting import PATIENCE_SECONDS, wait_until


@dataclass(frozen=True)
class Properties:
    """Properties of a message; None: without that property."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None

    def given(self) -> dict[str, Any]:
        """Those that it has."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


NOTHING = Properties()


@dataclass(frozen=True)
class Message:
    """What a client was given."""

    body: bytes
    exchange: str
    routing_key: str
    redelivered: bool
    delivery_tag: int
    properties: Properties = NOTHING
    consumer_tag: str = ""
    message_count: int = 0


@dataclass(frozen=True)
class Returned:
    """A message that came back."""

    code: int
    text: str
    exchange: str
    routing_key: str
    body: bytes


class Refused(Exception):
    """The server closed something.  `scope`: channel or connection."""

    def __init__(self, scope: str, code: int, text: str) -> None:
        super().__init__(scope, code, text)
        self.scope = scope
        self.code = code
        self.text = text


@dataclass(frozen=True)
class Arrival:
    """How a client connects.  `heartbeat_seconds` 0: none."""

    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    heartbeat_seconds: int = 0


@dataclass(frozen=True)
class Declared:
    """What queue.declare answers."""

    queue: str
    messages: int
    consumers: int


@dataclass
class Seen:
    """What came to a channel unasked, in order."""

    deliveries: list[Message] = field(default_factory=list)
    returned: list[Returned] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)


Arguments = dict[str, Any] | None


class Channel(ABC):
    """One channel.  What the server refuses is `Refused`.  With `confirms`, a publish waits for its answer."""

    def __init__(self) -> None:
        self.seen = Seen()

    def pump(self) -> None:  # noqa: B027 - only clients without a loop of their own have something to do
        """Take in what has come."""

    def wait(self, condition: Callable[[], Any], what: str, timeout: float = PATIENCE_SECONDS) -> None:
        """Wait until the condition holds, while what comes is taken in."""

        def looked() -> Any:
            self.pump()
            return condition()

        wait_until(looked, lambda: f"{what}; seen {self.seen}", timeout)

    def wait_deliveries(self, count: int) -> list[Message]:
        """The deliveries so far, at least so many."""
        self.wait(lambda: len(self.seen.deliveries) >= count, f"{count} deliveries")
        return list(self.seen.deliveries)

    def bodies(self, count: int) -> list[str]:
        """The bodies of the deliveries so far, at least so many."""
        return [message.body.decode() for message in self.wait_deliveries(count)]

    def wait_ready(self, queue: str, count: int) -> None:
        """Wait until so many messages of a queue are ready."""
        self.wait(lambda: self.ready(queue) == count, f"{count} messages are ready")

    def ready(self, queue: str) -> int:
        """How many messages of a queue are ready."""
        return self.queue_declare(queue, passive=True).messages

    def publish_all(self, exchange: str, key: str, *bodies: str, properties: Properties = NOTHING) -> list[bool]:
        """Publish them in order; with confirms, whether each was confirmed."""
        return [self.publish(exchange, key, body.encode(), properties) for body in bodies]

    def get_all(self, queue: str) -> list[Message]:
        """Take what is there, without acknowledgement."""
        found = []
        while (message := self.get(queue, no_ack=True)) is not None:
            found.append(message)
        return found

    @abstractmethod
    def publish(
        self, exchange: str, key: str, body: bytes = b"", properties: Properties = NOTHING, mandatory: bool = False
    ) -> bool:
        """Publish; with confirms, whether it was confirmed and not refused."""

    @abstractmethod
    def get(self, queue: str, no_ack: bool = False) -> Message | None: ...

    @abstractmethod
    def consume(
        self, queue: str, *, tag: str = "", no_ack: bool = False, exclusive: bool = False, arguments: Arguments = None
    ) -> str: ...

    @abstractmethod
    def cancel(self, tag: str) -> None: ...

    @abstractmethod
    def ack(self, delivery_tag: int, multiple: bool = False) -> None: ...

    @abstractmethod
    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None: ...

    @abstractmethod
    def reject(self, delivery_tag: int, requeue: bool = True) -> None: ...

    @abstractmethod
    def qos(self, count: int, whole_channel: bool = False) -> None: ...

    @abstractmethod
    def recover(self) -> None:
        """basic.recover with requeue."""

    @abstractmethod
    def exchange_declare(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments = None,
    ) -> None: ...

    @abstractmethod
    def exchange_delete(self, name: str, if_unused: bool = False) -> None: ...

    @abstractmethod
    def exchange_bind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None: ...

    @abstractmethod
    def exchange_unbind(self, destination: str, source: str, key: str, arguments: Arguments = None) -> None: ...

    @abstractmethod
    def queue_declare(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Arguments = None,
    ) -> Declared: ...

    @abstractmethod
    def queue_bind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None: ...

    @abstractmethod
    def queue_unbind(self, queue: str, exchange: str, key: str = "", arguments: Arguments = None) -> None: ...

    @abstractmethod
    def queue_purge(self, queue: str) -> int: ...

    @abstractmethod
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int: ...

    @abstractmethod
    def tx_select(self) -> None: ...

    @abstractmethod
    def tx_commit(self) -> None: ...

    @abstractmethod
    def tx_rollback(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class Peer(ABC):
    """One connection of one client.  It never connects again by itself."""

    @abstractmethod
    def channel(self, confirms: bool = False) -> Channel: ...

    @abstractmethod
    def close(self) -> None:
        """connection.close, and wait for its answer."""

    @abstractmethod
    def cut(self) -> None:
        """Be gone without a word."""
