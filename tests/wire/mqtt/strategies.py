"""Hypothesis strategies for every MQTT packet, in the form that decoding gives back."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from entrepot.protocols.mqtt import packets as p
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.properties import EMPTY, PROPERTY_TABLE, Properties, PropertyId, PropertySpec, PropertyType
from entrepot.protocols.mqtt.reason_codes import REASONS_OF, ConnectReturnCode, ReasonCode

VERSIONS = (3, 4, 5)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
topics = st.text(st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=40)
blobs = st.binary(max_size=300)
packet_ids = st.integers(1, 0xFFFF)
qoses = st.integers(0, 2)

_INTEGERS = {PropertyType.BYTE: 0xFF, PropertyType.U16: 0xFFFF, PropertyType.U32: 0xFFFF_FFFF}


def _values(spec: PropertySpec) -> st.SearchStrategy[Any]:
    if spec.id is PropertyId.RESPONSE_TOPIC:
        return topics
    if spec.type in _INTEGERS or spec.type is PropertyType.VARINT:
        return st.integers(spec.least, min(spec.most, _INTEGERS.get(spec.type, spec.most)))
    return {
        PropertyType.STRING: texts,
        PropertyType.BINARY: blobs,
        PropertyType.STRING_PAIR: st.tuples(texts, texts),
    }[spec.type]


@cache
def properties(packet_type: PacketType, version: int) -> st.SearchStrategy[Properties]:
    """Every property the packet may carry, each present or not."""
    if version < 5:
        return st.just(EMPTY)
    optional: dict[PropertyId, st.SearchStrategy[Any]] = {}
    for spec in PROPERTY_TABLE:
        if packet_type in spec.packets:
            most = 1 if packet_type is PacketType.SUBSCRIBE and spec.id is PropertyId.SUBSCRIPTION_IDENTIFIER else 3
            values = _values(spec)
            optional[spec.id] = st.lists(values, min_size=1, max_size=most) if spec.multiple else values
    return st.fixed_dictionaries({}, optional=optional).map(_with_method)


def _with_method(chosen: dict[PropertyId, Any]) -> Properties:
    if PropertyId.AUTHENTICATION_DATA in chosen:
        chosen.setdefault(PropertyId.AUTHENTICATION_METHOD, "SCRAM")
    return chosen


def _reasons(packet_type: PacketType, version: int) -> st.SearchStrategy[ReasonCode]:
    if version < 5:
        return st.just(ReasonCode.SUCCESS)
    return st.sampled_from(sorted(REASONS_OF.get(packet_type, {0: ReasonCode.SUCCESS}).values()))


@st.composite
def connects(draw: st.DrawFn, version: int) -> p.Connect:
    wills = st.builds(p.Will, topics, blobs, qoses, st.booleans(), properties(PacketType.WILL, version))
    username = draw(st.none() | texts)
    may_have_password = version == 5 or username is not None
    return p.Connect(
        draw(texts),
        version,
        draw(st.booleans()),
        draw(st.integers(0, 0xFFFF)),
        draw(st.none() | wills),
        username,
        draw(st.none() | blobs) if may_have_password else None,
        draw(properties(PacketType.CONNECT, version)),
    )


@st.composite
def connacks(draw: st.DrawFn, version: int) -> p.Connack:
    codes: list[Any] = list(ConnectReturnCode) if version < 5 else sorted(REASONS_OF[PacketType.CONNACK].values())
    reason = draw(st.sampled_from(codes))
    return p.Connack(not reason and draw(st.booleans()), reason, draw(properties(PacketType.CONNACK, version)))


@st.composite
def publishes(draw: st.DrawFn, version: int) -> p.Publish:
    qos = draw(qoses)
    chosen = draw(properties(PacketType.PUBLISH, version))
    return p.Publish(
        draw(topics | st.just("") if PropertyId.TOPIC_ALIAS in chosen else topics),
        draw(blobs),
        qos,
        draw(packet_ids) if qos else 0,
        draw(st.booleans()),
        qos > 0 and draw(st.booleans()),
        chosen,
    )


@cache
def packets(kind: PacketType, version: int) -> st.SearchStrategy[p.Packet]:
    """Packets of one type as a peer of that version may send them."""
    options = (st.booleans(), st.booleans(), st.integers(0, 2)) if version == 5 else ()
    filters = texts.filter(bool)
    subscriptions = st.lists(st.builds(p.Subscription, filters, qoses, *options), min_size=1, max_size=4)
    v3_granted = st.sampled_from([ReasonCode(0), ReasonCode(1), ReasonCode(2), ReasonCode(0x80)])
    granted = v3_granted if version < 5 else _reasons(PacketType.SUBACK, 5)
    removed = st.lists(_reasons(PacketType.UNSUBACK, 5), max_size=4) if version == 5 else st.just([])
    here = properties(kind, version)
    made: dict[PacketType, st.SearchStrategy[Any]] = {
        PacketType.CONNECT: connects(version),
        PacketType.CONNACK: connacks(version),
        PacketType.PUBLISH: publishes(version),
        PacketType.PUBACK: st.builds(p.Puback, packet_ids, _reasons(kind, version), here),
        PacketType.PUBREC: st.builds(p.Pubrec, packet_ids, _reasons(kind, version), here),
        PacketType.PUBREL: st.builds(p.Pubrel, packet_ids, _reasons(kind, version), here),
        PacketType.PUBCOMP: st.builds(p.Pubcomp, packet_ids, _reasons(kind, version), here),
        PacketType.SUBSCRIBE: st.builds(p.Subscribe, packet_ids, subscriptions, here),
        PacketType.SUBACK: st.builds(p.Suback, packet_ids, st.lists(granted, max_size=4), here),
        PacketType.UNSUBSCRIBE: st.builds(p.Unsubscribe, packet_ids, st.lists(filters, min_size=1, max_size=4), here),
        PacketType.UNSUBACK: st.builds(p.Unsuback, packet_ids, removed, here),
        PacketType.PINGREQ: st.just(p.Pingreq()),
        PacketType.PINGRESP: st.just(p.Pingresp()),
        PacketType.DISCONNECT: st.builds(p.Disconnect, _reasons(PacketType.DISCONNECT, version), here),
        PacketType.AUTH: st.builds(p.Auth, _reasons(PacketType.AUTH, 5), here),
    }
    return made[kind]


def kinds(version: int) -> list[PacketType]:
    """The packet types that version has."""
    absent = {PacketType.WILL} | ({PacketType.AUTH} if version < 5 else set())
    return [kind for kind in PacketType if kind not in absent]


@cache
def any_packet(version: int) -> st.SearchStrategy[p.Packet]:
    return st.one_of([packets(kind, version) for kind in kinds(version)])
