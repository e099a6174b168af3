"""Replay: a `$replay/...` subscription, a reader of the log beside the connection's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.mqtt.fan_out.audience import QueueKey, Run

if TYPE_CHECKING:
    from gateway.mqtt.connections.conversation import MqttConversation


class ReplayReader:
    """Implements `gateway.mqtt.fan_out.audience.Subscriber` for one replay."""

    __slots__ = ("_conversation", "lagging", "name", "resumed_at", "topic_filters")

    def __init__(self, conversation: MqttConversation, name: str, topic_filter: str) -> None:
        self._conversation = conversation
        self.name = name
        self.topic_filters = (topic_filter,)
        self.lagging: dict[QueueKey, int] | None = None
        self.resumed_at: dict[QueueKey, int] | None = None

    @property
    def client_id(self) -> str:
        return self._conversation.client_id

    @property
    def version(self) -> int:
        return self._conversation.version

    @property
    def has_backlog(self) -> bool:
        return self._conversation.outbox.has_backlog

    def deliver(self, run: Run) -> int:
        return self._conversation.outbox.deliver(run, self.name)

    def flush(self) -> None:
        self._conversation.flush()
