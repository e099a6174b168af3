"""AmqpAccess: the AMQP listener's questions to the one access decision point (`gateway.security`).

RabbitMQ's permissions map to the gateway's actions (`virtual_hosts/needs.py`).  *write* is PUB on each message's full
name and UPDATE on the binding's destination.  *read* is SUB on a queue's group and on a binding's source.  *configure*
is CREATE and DELETE.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from entrepot.domain.access.model import Action, Request, ResourceType
from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.exchange import PREDECLARED, Exchange
from entrepot.domain.names import qualified
from entrepot.domain.queues.arguments import QueueArguments
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.names import PROTOCOL
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.needs import message_name
from entrepot.gateway.amqp.virtual_hosts.parameters import Parameters
from entrepot.gateway.amqp.virtual_hosts.topic_keys import check_key_bound, check_keys_written
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.security.namespace_rights import has_rights_in
from entrepot.gateway.security.security import Security
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.reply_codes import ReplyCode

_WORDS: Final = {Action.SUB: "read", Action.UPDATE: "write", Action.PUB: "write"}
_EVERYWHERE: Final = frozenset(exchange.name for exchange in PREDECLARED)
"""Predeclared exchanges, which every virtual host has: their existence is not a secret."""


class AmqpAccess:
    """Access checks, each raising ACCESS_REFUSED.  A caller checks before the lookup, so that a refusal reveals
    nothing."""

    def __init__(self, security: Security, parameters: Parameters, *, checks_vhosts: bool = True) -> None:
        """`checks_vhosts`: a virtual host is entered only with some right in it."""
        self._security, self._parameters, self._checks_vhosts = security, parameters, checks_vhosts

    def may_enter(self, client: ClientInfo, vhost: Vhost) -> bool:
        """True if the client may open the virtual host: it has some right in it."""
        if self._security.is_open or not self._checks_vhosts or client.principal is None:
            return True
        if has_rights_in(self._security, client.principal, vhost.namespace):
            return True
        self._security.note_denied(client.principal, Action.GET, ResourceType.NAMESPACE, vhost.namespace, PROTOCOL)
        return False

    def check_publish(self, client: ClientInfo, vhost: Vhost, exchange: str, keys: Sequence[str]) -> None:
        """Check publishing with these routing keys, CC and BCC included: a fast form of `needs.to_publish`, run for
        each message."""
        if self._security.is_open:
            return
        principal, allows, namespace = client.principal, self._security.allows, vhost.namespace
        instead = needs.instead_of(namespace, exchange)
        for key in keys:
            name = message_name(namespace, exchange, key)
            if principal is None or not allows(principal, Action.PUB, ResourceType.TOPIC, name, PROTOCOL, instead):
                self._refuse(client, vhost, "write", "exchange", exchange)
        check_keys_written(self._parameters, vhost, client.login_name, exchange, keys)

    def check_read(self, client: ClientInfo, vhost: Vhost, queue: str) -> None:
        """Check consuming from the queue of that name, whether or not it exists."""
        if not self._security.is_open and not self._may(client, needs.to_read(vhost.namespace, queue)):
            self._refuse(client, vhost, "read", "queue", queue)

    def check_change(self, client: ClientInfo, vhost: Vhost, action: Action, name: str) -> None:
        """Check declaring, deleting or binding to the named entity."""
        self._check(client, vhost, needs.to_change(vhost.namespace, action, name))

    def check_bind(self, client: ClientInfo, vhost: Vhost, binding: Binding, source: Exchange | None) -> None:
        """Check making the binding, whether or not its source exists."""
        self._check(client, vhost, needs.to_bind(vhost.namespace, binding, source))
        if not self._security.is_open:
            check_key_bound(self._parameters, vhost, client.login_name, binding)

    def check_dead_letters(self, client: ClientInfo, vhost: Vhost, queue: str, arguments: QueueArguments) -> None:
        """Check dead-lettering from the queue to the exchange and routing key of its arguments."""
        exchange, key = arguments.dead_letter_exchange, arguments.dead_letter_routing_key
        wanted = needs.to_send_dead_letters(vhost.namespace, queue, exchange, key)
        self._check(client, vhost, wanted)

    def check_alternate(self, client: ClientInfo, vhost: Vhost, exchange: Exchange) -> None:
        """Check routing the exchange's unroutable messages to its alternate exchange."""
        wanted = needs.to_have_alternate(vhost.namespace, exchange.name, exchange.alternate)
        self._check(client, vhost, wanted)

    def check_know(self, client: ClientInfo, vhost: Vhost, name: str) -> None:
        """Check learning if the named exchange or queue exists: allowed with any right on it."""
        if self._security.is_open or name in _EVERYWHERE:
            return
        entity, principal = needs.entity_name(vhost.namespace, name), client.principal
        asked = ((ResourceType.TOPIC, f"{entity}/#"), (ResourceType.GROUP, entity))
        if principal is None or not any(self._security.may_know(principal, *each) for each in asked):
            if principal is not None:
                self._security.note_denied(principal, Action.GET, *asked[0], PROTOCOL)
            self._refuse(client, vhost, "configure", "resource", name)

    def note_change(self, client: ClientInfo, vhost: Vhost, event: str, kind: str, name: str) -> None:
        """Audit a change of what outlives its connection."""
        principal = client.principal
        if principal is not None:
            resource = f"{kind} {qualified(vhost.namespace, name)}"
            self._security.audit.changed(event, principal.name, principal.source, resource, "", PROTOCOL)

    def _check(self, client: ClientInfo, vhost: Vhost, wanted: Iterable[Request]) -> None:
        if self._security.is_open:
            return
        for need in wanted:
            if not self._may(client, (need,)):
                self._refuse(client, vhost, _WORDS.get(need.action, "configure"), "resource", need.name)

    def _may(self, client: ClientInfo, wanted: Iterable[Request]) -> bool:
        principal, allows = client.principal, self._security.allows
        return principal is not None and all(
            allows(principal, need.action, need.resource_type, need.name, PROTOCOL, need.instead) for need in wanted
        )

    @staticmethod
    def _refuse(client: ClientInfo, vhost: Vhost, what: str, kind: str, name: str) -> None:
        text = f"{what} access to {kind} '{name}' in vhost '{vhost.name}' refused for user '{client.login_name}'"
        raise AmqpError(ReplyCode.ACCESS_REFUSED, text)
