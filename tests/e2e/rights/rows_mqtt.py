"""The grid's rows of the MQTT door."""

from __future__ import annotations

from entrepot.domain.share import filtered_share_group
from entrepot.protocols.mqtt.packets import Puback, Publish, Pubrec, Suback, Subscribe, Subscription, Will
from entrepot.protocols.mqtt.properties import PropertyId
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.e2e.rights.grid import Doors, Need, Row

TAKEN = (ReasonCode.SUCCESS, ReasonCode.NO_MATCHING_SUBSCRIBERS, ReasonCode.GRANTED_QOS_1)


def is_refusal(reason: int) -> bool:
    assert reason in (*TAKEN, ReasonCode.NOT_AUTHORIZED), reason
    return reason == ReasonCode.NOT_AUTHORIZED


def publishing(form: str, name: str, needed: str, *ways: str, qos: int = 1, retain: bool = False) -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        with doors.mqtt(user) as (client, _):
            client.say(Publish(name, b"x", qos, 1, retain))
            answer: Puback | Pubrec = client.expect(Puback) if qos == 1 else client.expect(Pubrec)
            return is_refusal(answer.reason)

    return Row("MQTT", "PUBLISH", form, (("PUB", f"Topic:{needed}"),), is_denied, frozenset(("PUBLISH", *ways)))


def by_alias(doors: Doors, user: str) -> bool:
    """An alias names what it was said to, whoever may publish there."""
    with doors.mqtt(user) as (client, _):
        reasons = set()
        for number, name in enumerate(("grid/secret/x", ""), 1):
            client.say(Publish(name, b"x", 1, number, properties={PropertyId.TOPIC_ALIAS: 1}))
            reasons.add(is_refusal(client.expect(Puback).reason))
    (reason,) = reasons
    return reason


def will(form: str, name: str, needed: str) -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        with doors.mqtt(user, will=Will(name, b"will", 1)) as (_, answer):
            return is_refusal(answer.reason)

    return Row("MQTT", "CONNECT", form, (("PUB", f"Topic:{needed}"),), is_denied, frozenset(("CONNECT", "WILL")))


def subscribing(form: str, text: str, needed: str, *ways: str, group: str = "") -> Row:
    def is_denied(doors: Doors, user: str) -> bool:
        with doors.mqtt(user) as (client, _):
            client.say(Subscribe(1, [Subscription(text, 1)]))
            (reason,) = client.expect(Suback).reasons
            return is_refusal(reason)

    needs: tuple[Need, ...] = (("SUB", f"Topic:{needed}"), *((("SUB", f"Group:{group}"),) if group else ()))
    return Row("MQTT", "SUBSCRIBE", form, needs, is_denied, frozenset(("SUBSCRIBE", *ways)))


ALIAS = frozenset((PropertyId.TOPIC_ALIAS.name,))
ROWS = [
    Row("MQTT", "PUBLISH", "topic alias", (("PUB", "Topic:grid/secret/x"),), by_alias, ALIAS),
    publishing("a name", "grid/secret/x", "grid/secret/x"),
    publishing("a name, QoS 2", "grid/secret/x", "grid/secret/x", qos=2),
    publishing("an exchange with a dot", "grid%2Ex/a", "grid%2Ex/a"),
    publishing("retained", "grid/secret/x", "grid/secret/x", retain=True),
    publishing("delayed", "$delayed/600/grid/secret/x", "grid/secret/x", "$delayed"),
    will("will", "grid/secret/x", "grid/secret/x"),
    will("delayed will", "$delayed/600/grid/secret/x", "grid/secret/x"),
    subscribing("a name", "grid/secret/x", "grid/secret/x"),
    subscribing("one level", "grid/+/x", "grid/+/x"),
    subscribing("all below", "grid/#", "grid/#"),
    subscribing("share of a topic", "$share/workers/grid/#", "grid/#", "$share", group="workers"),
    subscribing(
        "share of a filter",
        "$share/workers/grid/a",
        "grid/a",
        "$share",
        group=filtered_share_group("workers", "grid/a"),
    ),
    subscribing("share of a queue", "$share/gq/%AMQP%gq/#", "%AMQP%gq/#", "$share", group="gq"),
    subscribing(
        "share of a queue with a dot", "$share/gq.x/%AMQP%gq%2Ex/#", "%AMQP%gq%2Ex/#", "$share", group="gq%2Ex"
    ),
    subscribing("replay", "$replay/earliest/grid/secret/#", "grid/secret/#", "$replay"),
    subscribing("figures", "$SYS/broker/uptime", "$SYS/broker/uptime", "$SYS"),
    subscribing("a name with $", "$queue/x", "$queue/x", "$queue"),
    subscribing("a name like a namespace's", "$ns/plant/grid/a", "$ns/plant/grid/a"),
]
