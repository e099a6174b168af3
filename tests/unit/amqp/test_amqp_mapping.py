"""AMQP messages as the domain's, and back: byte for byte to AMQP, by their meaning to other doors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.consumed import origin_of, template_of
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.mapping import expiration_ms, to_message
from tests.support.cases import cases

names = st.text(max_size=60).filter(lambda text: len(text.encode()) <= 255)
headers = st.dictionaries(names, st.one_of(st.text(), st.integers(-(1 << 31), 1 << 31), st.booleans(), st.binary()))


@given(names, names, st.binary(max_size=50), headers, st.none() | names, st.none() | names)
def test_an_amqp_consumer_gets_it_as_it_was(
    exchange: str, key: str, body: bytes, given_headers: dict[str, object], content_type: str | None, reply: str | None
) -> None:
    header = ContentHeader.of(
        content_type=content_type, reply_to=reply, headers=given_headers or None, delivery_mode=1, priority=7
    )
    message = to_message(Publish(exchange, key, False, header, body), (("t", 0), ("u", 1)), "t/x", 5, 1000)
    assert origin_of(message) == (exchange, key, header.data)
    assert (message.topic, message.queue_id, message.further_queues) == ("t", 0, (("u", 1),))
    assert (message.body, message.sub_topic, message.filter_hash, message.born_time_ms) == (body, "t/x", 5, 1000)
    assert message.system_text(SystemProperty.CONTENT_TYPE) == content_type
    assert message.system_text(SystemProperty.REPLY_TO) == reply


def test_what_other_doors_are_told() -> None:
    table = {"text": "a", "number": 5, "yes": True, "raw": b"\xff", "nested": {"no": 1}, "cloudEvents:id": "1"}
    header = ContentHeader.of(correlation_id="c", expiration="250", headers=table)
    message = to_message(Publish("", "q", False, header, b""), (("t", 0),), "", 0, 1000)
    assert message.properties == (
        ("text", "a"),
        ("number", "5"),
        ("yes", "true"),
        ("raw", b"\xff"),
        ("ce_id", "1"),
    )
    assert message.system[SystemProperty.CORRELATION_ID] == b"c"
    assert message.system[SystemProperty.EXPIRES_AT_MS] == 1250


def test_a_message_of_another_door() -> None:
    message = StoredMessage(
        "factory",
        b"21",
        "factory/line1/temp",
        born_time_ms=5000,
        properties=(("unit", "C"), ("ce_type", "t")),
        system={SystemProperty.CONTENT_TYPE: "text/plain", SystemProperty.CORRELATION_ID: b"\xffc"},
    )
    exchange, key, _ = origin_of(message)
    assert (exchange, key) == ("amq.topic", "factory.line1.temp")
    header = ContentHeader(origin_of(message)[2])
    assert header.content_type == "text/plain"
    assert header.headers == {"unit": "C", "cloudEvents_type": "t"}
    assert (header.delivery_mode, header.timestamp) == (2, 5)
    assert template_of(message).body == b"21"


def test_headers_that_the_queue_adds() -> None:
    header = ContentHeader.of(headers={"own": 1}, message_id="m")
    message = StoredMessage(
        **{
            name: getattr(to_message(Publish("", "q", False, header, b""), (("t", 0),), "", 0, 1), name)
            for name in ("topic", "body", "system")
        }
    )
    assert b"x-delivery-count" in template_of(message, {"x-delivery-count": 2}).frames(1, 4096)
    assert b"x-delivery-count" not in template_of(message).frames(1, 4096)


@cases("text", ["", "-1", "1.5", "١", "abc", "1e3", " 1"])
def test_expirations_that_are_none(text: str) -> None:
    with pytest.raises(ValueError):
        expiration_ms(text)
