"""Shapes of MQTT clients as operators see them."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, UnsetType

from entrepot.gateway.mqtt.connections.told_words import EventKind, Stage
from entrepot.gateway.operations.local_views.mqtt import SubscribedFilter
from entrepot.gateway.operations.row.gathered import AnsweredShown
from entrepot.gateway.operations.row.refusals import REFUSAL, RefusalShown
from entrepot.gateway.operations.row.shapes import Part, Shown, Time, one_of, shown_as

TIME: Final = "2026-12-01T08:00:00.000Z"
ADDRESS: Final = "192.0.2.7:40112"
GATEWAY: Final = "gateway-1"
"""Values of the examples."""


class ClientShown(Shown, frozen=True):
    """An MQTT client that is connected to a gateway"""

    id: str
    user: str | None
    version: str
    address: str
    listener: str | None
    tls: bool | None
    connected_since: Time | None
    keep_alive: int
    clean_start: bool
    session_expiry: int
    subscriptions: int
    in_flight: int
    queued: int
    lagging: int
    dropped: int
    refused: int
    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    gateway: str


shown_as(
    ClientShown(
        "line-1",
        "bob",
        "5.0",
        ADDRESS,
        "mqtt",
        False,
        TIME,
        keep_alive=60,
        clean_start=True,
        session_expiry=3600,
        subscriptions=2,
        in_flight=0,
        queued=0,
        lagging=0,
        dropped=0,
        refused=3,
        messages_in=12,
        messages_out=40,
        bytes_in=900,
        bytes_out=3100,
        gateway=GATEWAY,
    )
)


class ClientSession(Part, frozen=True):
    continued: bool
    is_durable: bool
    expiry_seconds: int
    receive_maximum: int
    receive_maximum_from_client: int
    max_queued: int
    max_packet_size: int | None


shown_as(ClientSession(True, True, 3600, 32, 1024, 1000, 262_144))


class ClientWill(Part, frozen=True):
    topic: str
    qos: int
    retain: bool
    size: int
    delay_seconds: int


shown_as(ClientWill("factory/line1/gone", 1, True, 4, 30))


class MessageInFlight(Part, frozen=True):
    packet_id: int
    qos: int
    waits_for: Annotated[str, one_of(Stage)]
    name: str | None
    topic: str | None
    queue_id: int | None
    offset: str | None
    is_retained: bool
    store_time: Time | None
    age_seconds: float | None


shown_as(MessageInFlight(411, 1, Stage.PUBLISHED.value, "factory/line1/temp", "factory", 2, "41", False, TIME, 0.2))


class ClientOutput(Part, frozen=True):
    queued_bytes: int
    unrecorded_bytes: int
    socket_bytes: int
    is_congested: bool
    is_reading_paused: bool


shown_as(ClientOutput(0, 0, 0, False, False))


class ClientFact(Part, frozen=True):
    kind: str
    is_trouble: bool
    text: str


shown_as(ClientFact("window-full", True, "32 messages wait for its acknowledgement"))


class ClientRefusal(Part, frozen=True):
    time: Time | None
    reason: str
    text: str


shown_as(ClientRefusal(TIME, "QUOTA_EXCEEDED", "a/#: a client has at most 1000 subscriptions"))


class WholeClientShown(ClientShown, frozen=True):
    """A client with its session, subscriptions, will, messages in flight, and why it does not send or get"""

    last_packet_seconds: float
    session: ClientSession
    will: ClientWill | None
    subscribed_to: list[SubscribedFilter]
    in_flight_messages: list[MessageInFlight]
    half_received: list[int]
    output: ClientOutput
    facts: list[ClientFact]
    last_refusal: ClientRefusal | None
    is_traced: bool
    answered: AnsweredShown


class ClientEventPart(Part, frozen=True):
    time: Time | None
    event: Annotated[str, one_of(EventKind)]
    reason: str | None
    text: str
    address: str
    user: str | None
    version: str | None
    count: int
    last_time: Time | None
    gateway: str


shown_as(
    ClientEventPart(
        TIME,
        EventKind.CONNECTED.value,
        "SERVER_SHUTTING_DOWN",
        "the server is shutting down",
        ADDRESS,
        "bob",
        "5",
        1,
        TIME,
        GATEWAY,
    )
)


class ClientEvents(Part, frozen=True):
    """`since`: the time from which on each gateway knows its events."""

    value: list[ClientEventPart]
    since: dict[str, Time | None]
    answered: AnsweredShown


class ClientSubscription(SubscribedFilter, frozen=True, kw_only=True):
    client: str
    gateway: str


shown_as(ClientSubscription("factory/#", 1, False, False, 0, 7, client="line-1", gateway=GATEWAY))


class SlowClient(Part, frozen=True):
    id: str
    address: str
    behind: int
    queued: int
    in_flight: int
    dropped: int
    gateway: str


shown_as(SlowClient("line-1", ADDRESS, 4000, 100, 20, 0, GATEWAY))


class Disconnected(Part, frozen=True):
    """The outcome for one of several clients; `error`: the reason if it was not disconnected."""

    id: str
    disconnected: bool
    error: RefusalShown | UnsetType = UNSET


shown_as(Disconnected("line-1", True, REFUSAL))
