"""Reader: one connection's reader in the hub: of its subscriptions, or of one `$replay/...` subscription."""

from __future__ import annotations

from collections.abc import Collection

from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.outbox import Outbox
from entrepot.gateway.mqtt.fan_out.audience import QueueKey, Run


class Reader:
    """A reader.  Implements `gateway.mqtt.fan_out.audience.Subscriber`.  `replay`: the replay's filter as the client
    wrote it; empty for the connection's own subscriptions."""

    __slots__ = ("_client", "_outbox", "lagging", "replay", "resumed_at", "topic_filters")

    def __init__(self, client: MqttClient, outbox: Outbox, topic_filters: Collection[str], replay: str = "") -> None:
        self._client, self._outbox = client, outbox
        self.topic_filters, self.replay = topic_filters, replay
        self.lagging: dict[QueueKey, int] | None = None
        self.resumed_at: dict[QueueKey, int] | None = None

    @property
    def client_id(self) -> str:
        return self._client.client_id

    @property
    def version(self) -> int:
        return self._client.machine.version

    @property
    def has_backlog(self) -> bool:
        return self._outbox.has_backlog

    def deliver(self, run: Run) -> int:
        return self._outbox.deliver(run, self.replay)

    def flush(self) -> None:
        self._client.flush()

    def fail(self) -> None:
        if self._client.driver is not None:
            self._client.driver.abort()
