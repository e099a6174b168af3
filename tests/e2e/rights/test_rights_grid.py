"""Contract row 19: door x verb x form of naming x decision; and every way to name something stands in the grid."""

from __future__ import annotations

import itertools

import pytest

from entrepot.domain.exchanges.exchange import ExchangeType
from entrepot.domain.queues.arguments import QueueType, known_arguments
from entrepot.domain.queues.policy import KNOWN_KEYS
from entrepot.gateway.amqp.connections.messages import HANDLERS
from entrepot.gateway.amqp.connections.publishing import FURTHER_KEYS
from entrepot.gateway.mqtt.topics.names import SERVERS_LEVELS
from entrepot.protocols.mqtt.packet_types import PacketType
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.rocketmq import v2_pb2 as v2
from tests.e2e.rights import rows_amqp, rows_http, rows_http_bodies, rows_mqtt, rows_rocketmq
from tests.e2e.rights.grid import Doors, decisions
from tests.support.cases import cases

ROWS = [*rows_amqp.ROWS, *rows_mqtt.ROWS, *rows_http.ROWS, *rows_http_bodies.ROWS, *rows_rocketmq.ROWS]


AT_ONCE = 9
"""Rows of a test: one has to be short, and many tests take long to find."""
PARTS = {
    f"{door} {at // AT_ONCE + 1}": rows[at : at + AT_ONCE]
    for door, of_door in itertools.groupby(ROWS, lambda row: row.door)
    for rows in [list(of_door)]
    for at in range(0, len(rows), AT_ONCE)
}


def test_no_row_is_left_out() -> None:
    assert [row for rows in PARTS.values() for row in rows] == ROWS


@pytest.mark.parametrize("part", PARTS)
def test_the_grid(doors: Doors, part: str) -> None:
    wrong: list[str] = []
    for row in PARTS[part]:
        user = doors.user()
        for decision in decisions(row):
            if row.prepare is not None:
                row.prepare(doors)
            doors.policy(user, *decision.statements)
            try:
                is_denied = row.is_denied(doors, user)
            except Exception as failure:
                failure.add_note(f"{row}, {decision.name}")
                raise
            if is_denied is not decision.is_denied:
                wrong.append(f"{row}, {decision.name}: {'not ' if decision.is_denied else ''}denied")
    assert not wrong


# -- every way to name something ---------------------------------------------------------------------------------------

NAME_NOTHING = {
    "AMQP methods": {
        "BasicQos", "BasicCancel", "BasicRecover", "BasicRecoverAsync", "ChannelFlow", "ChannelFlowOk",
        "ConfirmSelect", "TxRollback",
    },
    "AMQP queue arguments": {
        "x-message-ttl", "x-dead-letter-strategy", "x-expires", "x-max-length", "x-max-length-bytes",
        "x-max-in-memory-length", "x-max-in-memory-bytes", "x-max-priority", "x-overflow", "x-queue-mode",
        "x-queue-version", "x-single-active-consumer", "x-delivery-limit", "x-quorum-initial-group-size",
        "x-initial-cluster-size", "x-max-age", "x-stream-max-segment-size-bytes", "x-queue-type",
        "x-queue-leader-locator", "x-queue-master-locator", "x-delayed-retry-type", "x-delayed-retry-min",
        "x-delayed-retry-max",
    },
    "MQTT packets": {
        "CONNACK", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ",
        "PINGRESP", "DISCONNECT", "AUTH",
    },
    "MQTT properties": {"TOPIC_ALIAS_MAXIMUM", "RESPONSE_TOPIC"},
    "RocketMQ calls": {"NotifyClientTermination", "QueryRoute", "QueryAssignment"},
}  # fmt: skip
"""What names no message; or, the last two, tells who may send or receive: `test_rights_tell_nothing.py`."""
WAYS = {
    "AMQP methods": {method.__name__ for method in HANDLERS} | {"BasicPublish"},
    "AMQP headers": set(FURTHER_KEYS),
    "AMQP exchanges": {kind.value for kind in ExchangeType},
    "AMQP queue arguments": {name for kind in QueueType for name in known_arguments(kind)},
    "policies": {f"policy {key}" for key in KNOWN_KEYS if "exchange" in key},
    "MQTT packets": {kind.name for kind in PacketType},
    "MQTT properties": {each.name for each in PropertyId if "TOPIC" in each.name},
    "MQTT prefixes": set(SERVERS_LEVELS),
    "RocketMQ calls": {call.name for call in v2.DESCRIPTOR.services_by_name["MessagingService"].methods},
}
"""The product's own lists of what it takes."""


@cases("kind", WAYS)
def test_every_way_to_name_something_is_in_the_grid(kind: str) -> None:
    tried = {way for row in ROWS for way in row.ways}
    nothing = NAME_NOTHING.get(kind, set())
    assert WAYS[kind] - tried - nothing == set()
    assert nothing <= WAYS[kind]


def test_every_name_in_a_body_or_a_query_is_in_the_grid() -> None:
    tried = {way for row in ROWS for way in row.ways}
    forms = {row.form for row in ROWS}
    known = rows_http_bodies.NAME_NOTHING | rows_http_bodies.OF_THE_CLUSTER
    said = {**rows_http_bodies.OTHERWISE, **rows_http_bodies.IN_FORMS}
    found = set(rows_http_bodies.texts())
    missing = {
        f"{operation} {field}"
        for operation, field in found
        if field not in known
        and not {f"{operation} {field}"} & (tried | rows_http_bodies.FILTERS_OF_LISTS | said.keys())
    }
    assert not missing, "each needs a row, with the rights on what it names"
    every = {f"{operation} {field}" for operation, field in found}
    assert said.keys() | rows_http_bodies.FILTERS_OF_LISTS <= every
    assert known <= {field for _, field in found} and set(rows_http_bodies.IN_FORMS.values()) <= forms
