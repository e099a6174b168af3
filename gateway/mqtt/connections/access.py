"""MqttAccess: the MQTT listener's questions to the one access decision point (`gateway.security`)."""

from __future__ import annotations

import asyncio

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.shares.shares import Shares
from entrepot.gateway.security.credentials import Credentials, identity_of
from entrepot.gateway.security.scram import ScramExchange
from entrepot.gateway.security.security import Security
from entrepot.protocols.mqtt.packets import Connect

PROTOCOL = "mqtt"


class MqttAccess:
    """Access checks: publishing needs PUB on the topic name, subscribing SUB on the filter; a share also SUB on its
    group."""

    def __init__(self, security: Security, shares: Shares, clock: Clock) -> None:
        self._security, self._shares, self._clock = security, shares, clock
        self._loop = asyncio.get_running_loop()

    @property
    def is_open(self) -> bool:
        """True if every connected client may do everything, so that no check is needed."""
        return self._security.is_open

    def credentials(self, client: MqttClient, connect: Connect) -> Credentials:
        """The client's credentials."""
        assert client.driver is not None
        source = client.driver.source
        return Credentials(
            PROTOCOL,
            source.host,
            connect.username,
            connect.password,
            connect.client_id,
            is_tls=source.is_tls,
            certificate=identity_of(source),
            listener=source.listener,
        )

    async def authenticate(self, client: MqttClient, connect: Connect) -> Principal:
        """Authenticate a client.  Raises as `Security.authenticate`."""
        if client.driver is not None:
            anonymous = self._security.anonymous_at_once(client.host)
            if anonymous is not None and connect.client_id == "":
                return anonymous
        return await self._security.authenticate(self.credentials(client, connect))

    def exchange(self, credentials: Credentials) -> ScramExchange:
        """Begin an enhanced authentication."""
        return self._security.scram(credentials)

    def expires_at(self, client: MqttClient) -> float:
        """Time of the credentials' expiry on the loop's clock; infinity for never."""
        principal = client.principal
        if principal is None or principal.expires_at_ms is None:
            return float("inf")
        return self._loop.time() + max(principal.expires_at_ms - self._clock.now_ms(), 0) / 1000

    def may_publish(self, principal: Principal | None, name: str) -> bool:
        if principal is None:
            return False
        return self.is_open or self._security.allows(principal, Action.PUB, ResourceType.TOPIC, name, PROTOCOL)

    def may_subscribe(self, principal: Principal | None, topic_filter: str, share_name: str = "") -> bool:
        """True if the principal may subscribe; `share_name`: of a shared subscription, whose group is checked too."""
        if principal is None:
            return False
        if self.is_open:
            return True
        if not self._security.allows(principal, Action.SUB, ResourceType.TOPIC, topic_filter, PROTOCOL):
            return False
        if not share_name:
            return True
        try:
            group = self._shares.group_name(share_name, topic_filter)
        except EntrepotError:
            return False
        return self._security.allows(principal, Action.SUB, ResourceType.GROUP, group, PROTOCOL)
