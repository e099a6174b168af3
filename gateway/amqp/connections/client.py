"""ClientInfo: one connection's client: its login, its virtual host, its own account of itself."""

from __future__ import annotations

import secrets

from entrepot.domain.access.model import Principal
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost


class ClientInfo:
    """Empty at first; the login and connection.open fill it.

    `gateway`: the one that it is connected to.  `identity`: name of the connection among those of all gateways; it owns
    exclusive queues.  `login_name`: the name
    that the client logged in with: while no user is defined any is taken.  `has_published`: True from the first
    basic.publish on.
    """

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
