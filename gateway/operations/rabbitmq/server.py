"""Shared by the nouns of RabbitMQ's API: the AMQP front end, its virtual hosts, and their rights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.access.model import Action, Principal, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.gateway.amqp.virtual_hosts.needs import entity_name
from entrepot.gateway.amqp.virtual_hosts.vhost_names import namespace_of
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import Form, MissingError, bad_request
from entrepot.gateway.operations.row.rights import PROTOCOL, Right, fixed, listed
from entrepot.protocols.amqp.field_table import MAX_DEPTH

if TYPE_CHECKING:
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.amqp.virtual_hosts.vhost import Queue, Vhost
    from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts
    from entrepot.gateway.operations.row.asked import Asked
    from entrepot.gateway.security.security import Security

DEFAULT_EXCHANGE_NAME: Final = "amq.default"
"""Name in paths and lists of the default exchange, whose real name is empty."""


def new_noun(path: str = "") -> Noun:
    """Return a noun of RabbitMQ's API."""
    return Noun("rabbitmq", path, prefix="/api", form=Form.RABBITMQ)


class RabbitMq:
    """The AMQP front end as RabbitMQ's API has it; `amqp`: None where AMQP is disabled."""

    def __init__(self, amqp: AmqpFrontend | None, security: Security) -> None:
        self.amqp, self.security = amqp, security

    @property
    def frontend(self) -> AmqpFrontend:
        """The AMQP front end.  Raises MissingError if AMQP is disabled."""
        if self.amqp is None:
            raise MissingError("amqp-closed", "AMQP is disabled", "the AMQP listener of this server is disabled")
        return self.amqp

    @property
    def virtual_hosts(self) -> VirtualHosts:
        """The virtual hosts.  Raises MissingError if AMQP is disabled."""
        return self.frontend.virtual_hosts

    @property
    def vhosts(self) -> list[Vhost]:
        """All virtual hosts.  Raises MissingError if AMQP is disabled."""
        return self.virtual_hosts.definitions.vhosts()

    def vhost(self, name: str) -> Vhost:
        """Return a virtual host.  Raises MissingError."""
        found = self.virtual_hosts.definitions.vhost(name)
        if found is None:
            raise MissingError("vhost-not-found", "The virtual host does not exist", f"there is no vhost {name[:80]!r}")
        return found

    def queue(self, vhost: Vhost, name: str) -> Queue:
        """Return a queue.  Raises MissingError."""
        found = vhost.queue(name)
        if found is None:
            raise missing("queue", name, vhost)
        return found

    def check(self, principal: Principal, needs: Iterable[Need]) -> None:
        """Check rights that depend on the body.  Raises FORBIDDEN."""
        for need in needs:
            self.security.check(principal, need.action, need.resource_type, need.name, PROTOCOL, need.instead)


def exchange_name(named: str) -> str:
    """Return the real name of an exchange in a path."""
    return "" if named == DEFAULT_EXCHANGE_NAME else named


def missing(kind: str, name: str, vhost: Vhost) -> MissingError:
    return MissingError(
        f"{kind}-not-found", f"The {kind} does not exist", f"no {kind} '{name}' in vhost '{vhost.name}'"
    )


def arguments_of(given: Any) -> dict[str, Any]:
    """Return the arguments of a body.  An empty array counts as none, as some JSON writers have it.  Raises
    BAD_REQUEST."""
    found = given or {}
    if not isinstance(found, dict):
        raise bad_request("arguments: Input should be a valid dictionary")
    check_sayable("arguments", found)
    return found


def check_sayable(where: str, value: Any, depth: int = 0) -> None:
    """Raise BAD_REQUEST for what no field table of AMQP holds: numbers of more than 64 bits, and too many levels."""
    if depth > MAX_DEPTH:
        raise bad_request(f"{where}: is more than {MAX_DEPTH} levels deep")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise bad_request(f"{where}: a whole number has at most 64 bits")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        check_sayable(where, each, depth + 1)


# -- rights: the same as AMQP requires (`amqp/connections/access.py`) ------------------------------------------------


def resource_name(vhost: str, name: str) -> str:
    """The name of an exchange or queue in access checks."""
    return entity_name(namespace_of(vhost), name)


def named(*wanted: tuple[Action, ResourceType], parameter: str = "name") -> Right:
    """Rights on the path's entity."""

    def needs(own: Any, asked: Asked) -> list[Need]:
        name = resource_name(asked.plain["vhost"], asked.plain[parameter])
        return [Need(action, kind, name) for action, kind in wanted]

    return Right(needs)


LIST: Final = listed(ResourceType.TOPIC)
GET: Final = named((Action.GET, ResourceType.TOPIC))
DECLARE: Final = named((Action.CREATE, ResourceType.TOPIC))
DELETE: Final = named((Action.DELETE, ResourceType.TOPIC))
CONSUME: Final = named((Action.SUB, ResourceType.GROUP))
GOVERN: Final = fixed((Action.UPDATE, ResourceType.TOPIC))
"""Changing a policy may affect any queue, so it needs UPDATE on all topics."""
