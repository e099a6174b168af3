"""Encoders are total: each stored message has a form at each door, and what that form lacks is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.value_space import Rule, Unsaid
from entrepot.gateway.bridge.properties import to_paho
from entrepot.protocols.amqp import value_space as amqp
from entrepot.protocols.amqp.consumed import origin_of, template_of
from entrepot.protocols.amqp.content import ContentHeader, received_header
from entrepot.protocols.amqp.deaths import DeathReason, dead_header, deaths_of
from entrepot.protocols.amqp.delivery import deliver_frames
from entrepot.protocols.amqp.field_table import encode_short_string
from entrepot.protocols.cloudevents.event import check_attributes, is_attribute_name
from entrepot.protocols.cloudevents.http import to_binary
from entrepot.protocols.cloudevents.json_format import encode_event
from entrepot.protocols.cloudevents.mapping import to_event
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode, publish_template
from entrepot.protocols.mqtt.mapping import to_properties
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.rocketmq.delivered import delivered
from entrepot.protocols.rocketmq.names import Namespaces
from tests.support.stores.value_space_messages import edge_messages

NOW_MS = 1_700_000_000_000
USUAL_FRAME = 131_072
LATER_HEADERS = {"x-delivery-count": 3}


class Told:
    """What an encoder could not say."""

    def __init__(self) -> None:
        self.unsaid: list[Unsaid] = []

    def __call__(self, message: Message, unsaid: Unsaid) -> None:
        self.unsaid.append(unsaid)

    @property
    def kinds(self) -> set[str]:
        return {each.kind for each in self.unsaid}


@given(edge_messages())
def test_mqtt_says_every_message(message: StoredMessage) -> None:
    told = Told()
    properties = to_properties(message, NOW_MS, told)
    template = publish_template(message.sub_topic, message.body, 0, False, properties, 5)
    decoder = Decoder(1 << 28)
    decoder.version = 5
    [packet] = decoder.feed(template.head)
    assert isinstance(packet, Publish)
    assert (packet.topic, packet.payload) == (message.sub_topic, message.body)
    assert packet.properties == properties
    assert len(packet.properties.get(PropertyId.USER_PROPERTY, ())) >= len(message.properties) - len(told.unsaid)
    to_paho(properties)  # a bridge's client takes the same values
    for system, ident in (
        (SystemProperty.CONTENT_TYPE, PropertyId.CONTENT_TYPE),
        (SystemProperty.CORRELATION_ID, PropertyId.CORRELATION_DATA),
    ):
        if system in message.system and not told.unsaid:
            assert packet.properties[ident] == message.system[system]


@given(edge_messages())
def test_amqp_says_every_message(message: StoredMessage) -> None:
    told = Told()
    exchange, key, data = origin_of(message, told)
    assert exchange == "amq.topic"
    header = received_header(data)  # as strict as for a client's
    frames = deliver_frames(1, encode_short_string("c"), 1, False, template_of(message), USUAL_FRAME)
    assert frames[-1] == 0xCE
    whole = message.sub_topic.replace("/", ".")
    assert whole.startswith(key) and len(key.encode()) <= 255
    assert (key == whole) == (amqp.ROUTING_KEY.kind not in told.kinds)
    if not told.unsaid:
        content_type = message.system.get(SystemProperty.CONTENT_TYPE)
        assert header.content_type == content_type
        wanted = {name.replace("ce_", "cloudEvents_", 1) if name.startswith("ce_") else name: value
                  for name, value in message.properties}  # fmt: skip
        assert (header.headers or {}) == wanted


@given(edge_messages())
def test_what_a_queue_adds_never_makes_it_too_long(message: StoredMessage) -> None:
    told = Told()
    template = template_of(message, LATER_HEADERS, told)
    assert template.fits(USUAL_FRAME)
    header = ContentHeader(template.properties)
    left_out = any(each.name == "x-delivery-count" for each in told.unsaid)
    assert ("x-delivery-count" in (header.headers or {})) != left_out
    letter = header
    for number in range(3):
        letter = dead_header(
            letter, queue=f"q{number}", reason=DeathReason.EXPIRED, exchange="e", keys=["k" * 250], now_seconds=1
        )
        assert len(letter.data) <= amqp.PROPERTIES.max_bytes


@given(edge_messages())
def test_an_event_says_every_message(message: StoredMessage) -> None:
    told = Told()
    event = to_event(message, unsaid=told)
    check_attributes(event.attributes)
    assert all(map(is_attribute_name, event.attributes))
    assert json.loads(encode_event(event))["specversion"] == "1.0"
    headers, body = to_binary(event)
    assert body == message.body
    assert all(b"\r" not in value and b"\n" not in value for _, value in headers)
    sayable = [name for name, _ in message.properties if is_attribute_name(name.lower())]
    lost = [name for name in sayable if name.lower() not in event.attributes]
    assert len(told.unsaid) >= len(set(lost))


@given(edge_messages())
def test_rocketmq_says_every_message(message: StoredMessage) -> None:
    wire = delivered(message, Namespaces())
    assert wire.ParseFromString(wire.SerializeToString()) > 0
    assert wire.body == message.body


@pytest.mark.soak
@settings(max_examples=3000)
@given(edge_messages())
def test_every_door_says_thousands(message: StoredMessage) -> None:
    test_mqtt_says_every_message.hypothesis.inner_test(message)  # type: ignore[attr-defined]
    test_amqp_says_every_message.hypothesis.inner_test(message)  # type: ignore[attr-defined]
    test_what_a_queue_adds_never_makes_it_too_long.hypothesis.inner_test(message)  # type: ignore[attr-defined]
    test_an_event_says_every_message.hypothesis.inner_test(message)  # type: ignore[attr-defined]
    test_rocketmq_says_every_message.hypothesis.inner_test(message)  # type: ignore[attr-defined]


# -- single values -----------------------------------------------------------------------------------------------------


def plain(**changes: object) -> StoredMessage:
    message = StoredMessage("t", b"body", "t", born_time_ms=NOW_MS)
    for name, value in changes.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("length", "key"),
    [(126, "t." + "é" * 126), (127, "t." + "é" * 126), (255, "t." + "é" * 126)],
)
def test_a_routing_key_is_cut_at_a_whole_character(length: int, key: str) -> None:
    told = Told()
    assert origin_of(plain(sub_topic="t/" + "é" * length), told)[1] == key
    assert told.unsaid == ([] if length == 126 else [Unsaid("amqp", "routing key", Rule.SHORTENED)])


def test_the_longest_header_gives_way_first() -> None:
    told = Told()
    properties = (("short", "s"), ("long", "l" * 100_000), ("longer", "m" * 120_000), ("last", "z"))
    header = ContentHeader(origin_of(plain(properties=properties), told)[2])
    assert (header.headers or {}) == {"short": "s", "long": "l" * 100_000, "last": "z"}
    assert [(each.kind, each.name) for each in told.unsaid] == [("all properties", "longer")]


def test_the_oldest_deaths_give_way_and_the_last_one_stays() -> None:
    big = ContentHeader.of(headers={"user": "u" * 129_000})
    letter = big
    for number in range(30):
        letter = dead_header(
            letter, queue=f"q{number}", reason=DeathReason.MAXLEN, exchange="", keys=["k"], now_seconds=number
        )
    deaths = [each["queue"] for each in deaths_of(letter.headers or {})]
    assert deaths[0] == "q29" and deaths == [f"q{number}" for number in range(29, 29 - len(deaths), -1)]
    assert 1 < len(deaths) < 30
    assert (letter.headers or {})["user"] == "u" * 129_000
    full = ContentHeader.of(headers={"user": "u" * 131_000})
    alone = dead_header(full, queue="q", reason=DeathReason.MAXLEN, exchange="", keys=["k"], now_seconds=1)
    assert (alone.headers or {}) == {"user": "u" * 131_000}


@pytest.mark.parametrize(
    ("at_ms", "seconds", "is_told"),
    [(NOW_MS + 1, 1, False), (NOW_MS - 9_000, 1, False), (999_999_999_999_999, 0xFFFF_FFFF, True)],
)
def test_an_expiry_is_the_nearest_that_mqtt_has(at_ms: int, seconds: int, is_told: bool) -> None:
    told = Told()
    found = to_properties(plain(system={SystemProperty.EXPIRES_AT_MS: at_ms}), NOW_MS, told)
    assert found[PropertyId.MESSAGE_EXPIRY_INTERVAL] == seconds
    assert bool(told.unsaid) is is_told


@pytest.mark.parametrize("text", ["a\0b", "x" * 65_536, "é" * 32_768])
@pytest.mark.parametrize(
    ("where", "kind"),
    [
        (lambda text: plain(properties=(("n", text), ("m", "ok"))), "value of a user property"),
        (lambda text: plain(properties=((text, "v"), ("m", "ok"))), "name of a user property"),
        (lambda text: plain(properties=(("m", "ok"),), system={"content_type": text}), "content type"),
        (lambda text: plain(properties=(("m", "ok"),), system={"reply_to": text}), "response topic"),
    ],
)
def test_what_mqtt_cannot_say_is_left_out_alone(text: str, where: Callable[[str], StoredMessage], kind: str) -> None:
    told = Told()
    found = to_properties(where(text), NOW_MS, told)
    assert found == {PropertyId.USER_PROPERTY: [("m", "ok")]}
    assert [(each.kind, each.rule) for each in told.unsaid] == [(kind, Rule.LEFT_OUT)]


def test_a_response_topic_has_as_many_levels_as_it_likes() -> None:
    """It is said to others, and nobody routes it here."""
    deep = "x/" * 30_000 + "y"
    told = Told()
    found = to_properties(plain(system={"reply_to": deep}), NOW_MS, told)
    assert found == {PropertyId.RESPONSE_TOPIC: deep} and not told.unsaid
    decoder = Decoder(1 << 20, 5)
    [publish] = decoder.feed(encode(Publish("t", b"", 1, 1, properties=found), 5))
    assert isinstance(publish, Publish) and publish.properties == found


@pytest.mark.parametrize(("priority", "said"), [("0", 0), ("255", 255), ("256", 255), ("-1", 0), ("x", None)])
def test_a_priority_is_the_nearest_of_amqp(priority: str, said: int | None) -> None:
    assert ContentHeader(origin_of(plain(system={"priority": priority}))[2]).priority == said
