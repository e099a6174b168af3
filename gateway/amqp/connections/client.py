"""ClientInfo: one connection's client: its login, its virtual host and its client properties."""

from __future__ import annotations

import secrets

from entrepot.domain.access.model import Principal
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost


class ClientInfo:
    """One connection's client, empty at first; the login and connection.open fill it.  `gateway`: name of its gateway.
    `identity`: name of the connection, unique among all gateways; it owns exclusive queues.  `login_name`: name given
    at the login; any is taken while no user is defined.  `has_published`: True from the first basic.publish on."""

    __slots__ = (
        "connected_at_ms",
        "gateway",
        "has_published",
        "identity",
        "login_name",
        "principal",
        "properties",
        "vhost",
    )

    def __init__(self, gateway: str) -> None:
        self.gateway = gateway
        self.identity = f"{gateway}/{secrets.token_hex(8)}"
        self.login_name = ""
        self.principal: Principal | None = None
        self.vhost: Vhost | None = None
        self.properties: dict[str, object] = {}
        self.connected_at_ms = 0
        self.has_published = False

    @property
    def vhost_name(self) -> str:
        return "" if self.vhost is None else self.vhost.name
