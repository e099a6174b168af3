"""Facts: why a client does not send, or does not get, in sentences for operators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from entrepot.gateway.mqtt.connections.admission import Pace
from entrepot.gateway.mqtt.connections.conversation import MqttConversation
from entrepot.gateway.mqtt.connections.services import MqttServices
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub

SILENT_SHARE: Final = 1.0
"""Silence, as a share of the keep alive, from which on a client is called silent; at 1.5 it is disconnected."""


class Fact(NamedTuple):
    """One fact.  `is_trouble`: True if it keeps messages from passing now."""

    kind: str
    is_trouble: bool
    text: str


def messages_behind(hub: DeliveryHub, conversation: MqttConversation) -> int:
    """Number of messages in its queues after its read position; not all of them need match its filters."""
    return sum(
        max((hub.tail_position(key) or offset) - offset, 1) if offset >= 0 else 1
        for key, offset in (conversation.subscribing.reader.lagging or {}).items()
    )


def facts_of(conversation: MqttConversation, services: MqttServices) -> list[Fact]:
    """The facts of a connected client, those of its sending first."""
    return [*_of_sending(conversation, services), *_of_getting(conversation, services)]


def _of_sending(conversation: MqttConversation, services: MqttServices) -> Iterator[Fact]:
    client, machine = conversation.client, conversation.machine
    driver = client.driver
    silence = services.loop.time() - machine.heard_at
    if client.keep_alive and silence > client.keep_alive * SILENT_SHARE:
        yield Fact(
            "silent", True, f"nothing has come from it for {silence:.0f} s; its keep alive is {client.keep_alive} s"
        )
    if driver is not None and driver.is_choked:
        yield Fact("answers-unread", True, "the gateway does not read from it, because it does not read its answers")
    for reason in driver.pauses if driver is not None else ():
        if isinstance(reason, Pace):
            yield Fact(
                "paced", True, "the gateway does not read from it now: it publishes faster than its limit allows"
            )
        elif isinstance(reason, str):
            yield Fact("not-read", True, f"the gateway does not read from it now: {reason}")
        else:
            yield Fact("not-read", True, "the gateway does not read from it now: a subscription is being changed first")
    for denial in client.denials or ():
        text = f"{denial.reason.replace('_', ' ').lower()}, {denial.count} times: {denial.text}"
        yield Fact("denied", True, text)


def _of_getting(conversation: MqttConversation, services: MqttServices) -> Iterator[Fact]:
    client, outbox, subscribing = conversation.client, conversation.outbox, conversation.subscribing
    window, driver, settings = conversation.machine.window, client.driver, services.settings
    if not subscribing.records:
        yield Fact("no-subscription", False, "it has no subscription, so it gets nothing")
    if subscribing.settling:
        yield Fact("subscribing", True, f"{subscribing.settling} SUBSCRIBEs have no full effect yet")
    if window.room <= 0:
        yield Fact(
            "window-full",
            True,
            f"{len(window.held)} messages wait for its acknowledgement, all that may: it gets no more above QoS 0",
        )
    if driver is not None and driver.is_congested:
        text = f"it reads too slowly: {driver.unwritten} bytes wait for its socket, and messages of QoS 0 are dropped"
        yield Fact("socket-full", True, text)
    if outbox.waiting >= settings.max_queued_messages:
        yield Fact(
            "queue-full", True, f"{outbox.waiting} messages wait in memory, all that may: the rest waits in the log"
        )
    unrecorded = outbox.waiting_bytes[1]
    if driver is not None and unrecorded >= driver.write_limit:
        yield Fact("record-behind", True, f"{unrecorded} bytes wait until the session's record is durable")
    lagging = subscribing.reader.lagging
    if lagging:
        behind = messages_behind(services.hub, conversation)
        yield Fact(
            "behind", True, f"it reads {len(lagging)} queues from the log, up to {behind} messages behind their end"
        )
    if client.dropped:
        yield Fact("dropped", False, f"{client.dropped} messages of QoS 0 were dropped, because it read too slowly")
