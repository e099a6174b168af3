"""The words in which tests speak to other people's clients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Outgoing:
    """What is to be published.  Empty and 0: without that property.  `alias`: the topic alias to send it with."""

    topic: str
    payload: bytes = b""
    qos: int = 1
    retain: bool = False
    content_type: str = ""
    response_topic: str = ""
    correlation: bytes = b""
    user: tuple[tuple[str, str], ...] = ()
    expiry_seconds: int = 0
    alias: int = 0

    @property
    def has_properties(self) -> bool:
        return bool(
            self.content_type
            or self.response_topic
            or self.correlation
            or self.user
            or self.expiry_seconds
            or self.alias
        )


@dataclass(frozen=True)
class Incoming:
    """What a client was given."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    content_type: str = ""
    response_topic: str = ""
    correlation: bytes = b""
    user: tuple[tuple[str, str], ...] = ()
    expiry_seconds: int = 0
    identifiers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """One subscription."""

    filter: str
    qos: int = 1
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0


@dataclass(frozen=True)
class Arrival:
    """How a client connects.  `expiry_seconds` of the session: version 5; in version 3.1.1 `clean` says it alone."""

    client_id: str
    clean: bool = True
    expiry_seconds: int = 0
    will: Outgoing | None = None
    will_delay_seconds: int = 0
    receive_maximum: int = 0
    topic_alias_maximum: int = 0


class Peer(ABC):
    """One connection of one client.  It never connects again by itself."""

    def __init__(self) -> None:
        self.received: list[Incoming] = []
        self.session_present = False

    @abstractmethod
    def subscribe(self, *wanted: Wanted) -> list[int]:
        """Subscribe; the reason of each."""

    @abstractmethod
    def publish(self, *messages: Outgoing) -> None:
        """Publish, and wait for the answers of QoS 1 and 2."""

    @abstractmethod
    def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe, and wait for the answer."""

    @abstractmethod
    def leave(self) -> None:
        """DISCONNECT."""

    @abstractmethod
    def cut(self) -> None:
        """Be gone without a word."""

    def wait(self, count: int) -> list[Incoming]:
        """The first messages, at least so many."""
        wait_until(lambda: len(self.received) >= count, lambda: f"{count} messages, not {self.received[:5]}")
        return list(self.received)


def found_of(properties: Any) -> dict[str, Any]:
    """The fields of `Incoming` in paho's `Properties`, or in none."""
    if properties is None:
        return {}
    names = {
        "content_type": ("ContentType", ""),
        "response_topic": ("ResponseTopic", ""),
        "correlation": ("CorrelationData", b""),
        "expiry_seconds": ("MessageExpiryInterval", 0),
    }
    found = {field: getattr(properties, name, empty) for field, (name, empty) in names.items()}
    found["user"] = tuple(getattr(properties, "UserProperty", ()))
    found["identifiers"] = tuple(getattr(properties, "SubscriptionIdentifier", ()))
    return found
