"""The language of the conformance cases: what clients say, and what each of them must hear.

A case is data.  It names connections ("a", "b"), and its steps are played in order by `player.py` against any server.
Packets are the project's own types, encoded by its own encoder; what no encoder would write is raw bytes.

Every topic and client identifier of a case contains `T` or `ID`.  The player replaces `UNIQUE` by as many bytes of
its own in everything it sends, and back in everything it hears, so that cases do not meet each other on one server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from entrepot.protocols.mqtt.packets import (
    Acknowledgement,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Puback,
    Publish,
    Suback,
    Subscribe,
    Subscription,
)
from entrepot.protocols.mqtt.properties import EMPTY, PropertyId
from entrepot.protocols.mqtt.reason_codes import ConnectReturnCode, ReasonCode

UNIQUE: Final = "@@@@@@@@"
"""Replaced, byte for byte, by what no other play of any case uses."""

T: Final = f"c/{UNIQUE}"
"""The topics of a case are this and what is below it."""

ID: Final = UNIQUE
"""The client identifiers of a case begin with this."""

SHORT_SECONDS: Final = 1.0
"""The shortest time MQTT can name; steps wait for no less and for little more."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect a socket and say nothing yet.  `version` is the one in which answers are read."""

    on: str
    version: int
    transport: str = "tcp"


@dataclass(frozen=True, slots=True)
class Say:
    """Send a packet or raw bytes.  `of`: the packet takes the identifier that was heard under this name."""

    on: str
    what: Packet | bytes
    of: str = ""


@dataclass(frozen=True, slots=True)
class SayFrames:
    """Send each piece in a WebSocket frame of its own, binary or text."""

    on: str
    frames: tuple[bytes, ...]
    text: bool = False


@dataclass(frozen=True, slots=True)
class Hear:
    """The next packet must be this one.

    Of a PUBLISH all properties are compared, of other packets those in `packet` and no more, and those in `without`
    must be absent.  A PUBLISH above QoS 0 has any identifier, remembered as `name`; other packets with `of` must have
    the identifier remembered under that name.  `reasons` are further reason codes that are as good.  `has` are
    properties of any value, and `between` bounds those that are integers.
    """

    on: str
    packet: Packet
    name: str = ""
    of: str = ""
    without: tuple[PropertyId, ...] = ()
    has: tuple[PropertyId, ...] = ()
    reasons: tuple[int, ...] = ()
    between: Mapping[PropertyId, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HearAll:
    """The next packets must be these, in any order."""

    on: str
    packets: tuple[Packet, ...]


@dataclass(frozen=True, slots=True)
class HearTogether:
    """These PUBLISH packets must come, each on exactly one of these connections, and nothing else on any of them.

    `remembers` names the identifier and `elects` the connection of the last one: later steps may speak of either.
    """

    on: tuple[str, ...]
    packets: tuple[Publish, ...]
    name: str = ""
    elects: str = ""


@dataclass(frozen=True, slots=True)
class HearOneOf:
    """The next packets must be those of one of these sequences."""

    on: str
    ways: tuple[tuple[Packet, ...], ...]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Whatever was sent so far has made the server send nothing to this connection, and it is open."""

    on: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The server has closed the connection; version 5 hears a DISCONNECT with one of these reasons first, if any."""

    on: str
    reasons: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """Close the socket without a word."""

    on: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Let time pass, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Play SCRAM-SHA-256 to its end: `starts` is the packet with the method, `ends` the one that must confirm."""

    on: str
    starts: Packet
    ends: Packet
    username: str
    password: str


Step: TypeAlias = (
    Dial | Say | SayFrames | Hear | HearAll | HearTogether | HearOneOf | Quiet | Closed | Cut | Wait | Authenticate
)


@dataclass(frozen=True)
class Case:
    """One proof.  `five` and `four` are the numbers of the statements of 5.0 and 3.1.1 that it proves."""

    name: str
    steps: tuple[Step, ...]
    five: tuple[str, ...] = ()
    four: tuple[str, ...] = ()
    needs: str = ""
    """What the server must have for the case to say anything: a transport or a method; empty for all."""

    @property
    def waits(self) -> bool:
        """True where it lets time pass."""
        return any(isinstance(step, Wait) for step in self.steps)


Steps: TypeAlias = Step | tuple[Step, ...]


def case(name: str, *steps: Steps, five: str = "", four: str = "", needs: str = "") -> Case:
    """A case of one version; `five` and `four` are statement numbers with blanks between."""
    flat: list[Step] = []
    for step in steps:
        flat.extend(step if isinstance(step, tuple) else (step,))
    return Case(name, tuple(flat), tuple(five.split()), tuple(four.split()), needs=needs)


def both(name: str, make: Callable[[int], tuple[Steps, ...]], five: str, four: str) -> list[Case]:
    """The same conversation in 5.0 and in 3.1.1, proving the statements of each."""
    return [case(f"{name} [5]", *make(5), five=five), case(f"{name} [3.1.1]", *make(4), four=four)]


# -- short words for what most cases say


def dial(on: str, version: int = 5, transport: str = "tcp") -> Dial:
    return Dial(on, version, transport)


def say(on: str, *what: Packet | bytes, of: str = "") -> tuple[Step, ...]:
    return tuple(Say(on, one, of) for one in what)


def opens(on: str, version: int = 5, present: bool = False, clean: bool = True, **other: Any) -> tuple[Step, ...]:
    """Connect as the client that is named after the connection, or `client_id`, and be accepted."""
    client_id = other.pop("client_id", ID + on)
    properties = other.pop("props", EMPTY)
    hello = Connect(client_id, version, clean, properties=properties, **other)
    return (Dial(on, version), Say(on, hello), Hear(on, welcome(version, present)))


def welcome(version: int = 5, present: bool = False) -> Connack:
    return Connack(present, ReasonCode.SUCCESS if version == 5 else ConnectReturnCode.ACCEPTED)


def subscribes(
    on: str, *wanted: str | Subscription, qos: int = 0, packet_id: int = 1, subscription_id: int = 0
) -> tuple[Step, ...]:
    """Subscribe and be granted what was asked for.  Plain filters are asked for at `qos`."""
    subscriptions = [Subscription(one, qos) if isinstance(one, str) else one for one in wanted]
    properties = {PropertyId.SUBSCRIPTION_IDENTIFIER: [subscription_id]} if subscription_id else EMPTY
    granted = [ReasonCode(one.qos) for one in subscriptions]
    return (Say(on, Subscribe(packet_id, subscriptions, properties)), Hear(on, Suback(packet_id, granted)))


def publishes(on: str, topic: str, payload: bytes, version: int = 5, **other: Any) -> tuple[Step, ...]:
    """Publish at QoS 1 and hear the PUBACK: what was published is with the server."""
    packet_id = other.pop("packet_id", 100)
    properties = other.pop("props", EMPTY)
    said = Publish(topic, payload, 1, packet_id, properties=properties, **other)
    return (Say(on, said), Hear(on, Puback(packet_id), reasons=(ReasonCode.NO_MATCHING_SUBSCRIBERS,)))


def hear(on: str, packet: Packet, name: str = "", of: str = "", **other: Any) -> Hear:
    return Hear(on, packet, name, of, **other)


def message(on: str, topic: str, payload: bytes, qos: int = 0, name: str = "", **other: Any) -> Hear:
    """A PUBLISH must come next."""
    between = other.pop("between", {})
    properties = other.pop("props", EMPTY)
    return Hear(on, Publish(topic, payload, qos, properties=properties, **other), name, between=between)


def answers(on: str, kind: Callable[[int], Acknowledgement], of: str, reason: int = 0) -> Say:
    """Acknowledge what was heard under a name."""
    packet = kind(1)
    packet.reason = ReasonCode(reason)
    return Say(on, packet, of)


def quiet(*on: str) -> tuple[Quiet, ...]:
    return tuple(Quiet(one) for one in on)


def closed(on: str, *reasons: int) -> Closed:
    """It is closed; with reasons, by a DISCONNECT of version 5 that says one of them."""
    return Closed(on, reasons)


def ends(on: str, version: int, *reasons: int) -> Closed:
    """It is closed, with one of these reasons in version 5 and without a word in 3.1.1."""
    return Closed(on, reasons if version == 5 else ())


def cut(on: str) -> Cut:
    return Cut(on)


def leaves(on: str, **other: Any) -> tuple[Step, ...]:
    """Say DISCONNECT; the server closes."""
    return (Say(on, Disconnect(**other)), Closed(on))


def wait(seconds: float) -> Wait:
    return Wait(seconds)
