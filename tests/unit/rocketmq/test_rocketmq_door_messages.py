"""What producers send and consumers are handed: nothing breaks it, and nothing gets lost in it."""

from __future__ import annotations

from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.delivered import delivered, message_id_text
from entrepot.protocols.rocketmq.headers import parse_authorization
from entrepot.protocols.rocketmq.mapping import domain_id
from entrepot.protocols.rocketmq.names import Namespaces
from entrepot.protocols.rocketmq.published import PublishLimits, published
from tests.support.rocketmq.sdk.messages import from_wire, to_wire
from tests.unit.rocketmq.test_rocketmq_mapping import messages

HOME, LIMITS = Namespaces(), PublishLimits(properties=1000, property_bytes=1 << 20)
ALL = frozenset(v2.MessageType.values())
texts = st.text(max_size=12).filter(lambda text: text.isprintable() or text.isascii())
safe = st.text(st.characters(codec="utf-8"), max_size=12)


@st.composite
def wires(draw: st.DrawFn) -> v2.Message:
    system = v2.SystemProperties(
        message_id=draw(st.one_of(safe, st.just("01" + "A" * 32))),
        message_type=draw(st.sampled_from(v2.MessageType.values())),
        body_encoding=draw(st.sampled_from(v2.Encoding.values())),
        keys=draw(st.lists(safe, max_size=3)),
        born_host=draw(safe),
    )
    for name in ("tag", "message_group", "lite_topic", "trace_context"):
        if draw(st.booleans()):
            setattr(system, name, draw(safe))
    if draw(st.booleans()):
        system.priority = draw(st.integers(-(2**31), 2**31 - 1))
    for name in ("delivery_timestamp", "born_timestamp"):
        if draw(st.booleans()):
            getattr(system, name).seconds = draw(st.integers(-(2**63), 2**63 - 1))
            getattr(system, name).nanos = draw(st.integers(-(2**31), 2**31 - 1))
    if draw(st.booleans()):
        system.orphaned_transaction_recovery_duration.seconds = draw(st.integers(-(2**40), 2**40))
    if draw(st.booleans()):
        system.body_digest.type = draw(st.sampled_from(v2.DigestType.values()))
        system.body_digest.checksum = draw(safe)
    ours = ["entrepot_" + name for name in ("more", "properties", "sub_topic", "qos", "keys", "expires_at_ms", "amqp")]
    values = st.one_of(
        safe, st.sampled_from(["[]", "{}", "[[1]]", '{"a":["!"]}', '["a",["b","c"]]', "9" * 5000, "[" * 500])
    )
    properties = draw(st.dictionaries(st.one_of(safe, st.sampled_from(ours)), values, max_size=5))
    return v2.Message(body=draw(st.binary(max_size=30)), user_properties=properties, system_properties=system)


@given(wires())
def test_whatever_is_sent_is_taken_or_refused(wire: v2.Message) -> None:
    try:
        found = published(wire, "team/t", LIMITS, ALL)
    except EntrepotError:
        return
    names = {field.name for field in fields(Message)}
    stored = StoredMessage(**{name: getattr(found.message, name) for name in names}, queue_offset=3)
    shown = delivered(stored, HOME)
    assert shown.SerializeToString()
    assert shown.topic.resource_namespace == "team"
    again = from_wire(shown, HOME)
    assert (again.body, again.sub_topic, again.tag, again.keys) == (
        found.message.body,
        found.message.sub_topic,
        found.message.tag,
        found.message.keys,
    )
    internal = set(again.system) & {SystemProperty.RETRY_TOPIC, SystemProperty.AMQP, SystemProperty.TRANSACTION_ID}
    assert not internal & set(found.message.system)


@given(messages())
def test_a_message_of_a_gateway_in_front_comes_back_as_it_was(message: Message) -> None:
    """Entrepôt as the client of Entrepôt: out and back by the client's mapping, in and out by the door's."""
    try:
        wire = to_wire(message, v2.NORMAL, HOME)
        found = published(wire, message.topic, LIMITS, ALL).message
    except EntrepotError:
        return  # what RocketMQ does not take, the door does not
    names = {field.name for field in fields(Message)}
    stored = StoredMessage(**{name: getattr(found, name) for name in names})
    again = from_wire(delivered(stored, HOME), HOME)
    again_system, system = dict(again.system), dict(message.system)
    for name in (SystemProperty.CORRELATION_ID, SystemProperty.PAYLOAD_IS_TEXT):
        again_system.pop(name, None), system.pop(name, None)
    assert again_system == system
    assert (again.body, again.sub_topic, again.qos, again.tag, again.keys) == (
        message.body,
        message.sub_topic,
        message.qos,
        message.tag,
        message.keys,
    )
    assert (again.properties, again.message_group, again.message_id) == (
        message.properties,
        message.message_group,
        message.message_id,
    )


@given(st.binary(min_size=1, max_size=40))
def test_ids(message_id: bytes) -> None:
    text = message_id_text(message_id)
    assert text.isascii() and text.isprintable()
    if len(message_id) == 16:
        assert domain_id(text) == message_id


@given(
    st.one_of(
        safe, st.from_regex(r"MQv2-HMAC-SHA1 Credential=[^ ]*, SignedHeaders=x-mq-date-time, Signature=[0-9a-f]*")
    )
)
def test_authorization_headers(text: str) -> None:
    shown = parse_authorization(text)
    if shown is not None:
        assert "/" not in shown.access_key and "," not in shown.access_key
