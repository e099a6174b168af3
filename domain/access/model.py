"""The terms of access control: principals, actions, resources, statements, decisions.

A request names one action on one resource.  The name of a Topic resource is a sub-topic's full name or an MQTT filter
(`factory/line1/temp`, `factory/#` for a whole topic); an empty name stands for everything of a type.  Names of a
namespace other than `default` begin with `$ns/<namespace>/`, which no wildcard at a first level reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from entrepot.domain.names import CATCH_ALL_TOPIC, DEFAULT_NAMESPACE, qualified, split_name

ANONYMOUS: Final = "anonymous"
"""Name of a principal without credentials.  No user may have it."""
EVERYBODY: Final = "*"
"""Subject of the policy that holds for all principals."""
EVERYTHING: Final = ""
"""Name in a request that stands for all resources of a type."""
NAMESPACE_LEVEL: Final = "$ns"
SUBJECT_PREFIX: Final = "User:"
MAX_USER_NAME_BYTES: Final = 256


class Action(StrEnum):
    """Actions on a resource; ALL stands in statements only."""

    ALL = "ALL"
    PUB = "PUB"
    SUB = "SUB"
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    GET = "GET"
    LIST = "LIST"


class ResourceType(StrEnum):
    """Types of resources."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"


class Effect(StrEnum):
    """Effects of a statement."""

    ALLOW = "ALLOW"
    DENY = "DENY"


class Origin(StrEnum):
    """Ways to recognise a principal."""

    ANONYMOUS = "anonymous"
    PASSWORD = "password"
    SCRAM = "scram"
    TOKEN = "token"
    CERTIFICATE = "certificate"
    SETUP = "setup"
    """Recognised by the setup token, while no user is defined."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One rule of a policy: the effect for actions on resources, for sources in one of the networks.  `resources` are
    written `<Type>:<pattern>` (`domain.access.pattern`) or `<Type>~<expression>` (`domain.access.name_expression`),
    `sources` as CIDR; without sources it holds from anywhere."""

    effect: Effect
    actions: tuple[Action, ...]
    resources: tuple[str, ...]
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Policy:
    """The statements about one subject: a user's name, or EVERYBODY."""

    subject: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Principal:
    """An authenticated peer.  Compared by identity: one is made per authentication.

    `client_id` is empty where the protocol has none.  `source` is the peer's address without a port.  `credential`
    names the secret used, so that changing it revokes the principal.  `statements` came with a token.  From
    `expires_at_ms` on (epoch) it has no rights; None: no expiry.
    """

    name: str
    origin: Origin
    source: str
    client_id: str = ""
    credential: str = ""
    statements: tuple[Statement, ...] = ()
    expires_at_ms: int | None = None

    @property
    def is_anonymous(self) -> bool:
        """True if the peer was not authenticated."""
        return self.origin is Origin.ANONYMOUS


@dataclass(frozen=True, slots=True)
class Request:
    """A request for one action on one resource.  `instead`: another name, on which an ALLOW is enough, too; a DENY
    on it does not count."""

    action: Action
    resource_type: ResourceType
    name: str
    instead: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision and its reason: the subject of the policy and the statement that decided, if one did."""

    is_allowed: bool
    reason: str
    subject: str | None = None
    statement: Statement | None = None


def access_name(stored_name: str) -> str:
    """Return the name in requests of a topic or group with this stored name."""
    namespace, plain = split_name(stored_name)
    return plain if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/{plain}"


def default_exchange_name(namespace: str) -> str:
    """Return the name of AMQP's default exchange: PUB on it allows a publish by it to every queue.  Wildcards at a
    first level do not reach it."""
    return access_name(qualified(namespace, "$amq.default"))


def whole_topic(stored_name: str) -> str:
    """Return the filter of all that is in a topic.  The catch-all topic has messages of any name, so it gives
    EVERYTHING."""
    return EVERYTHING if stored_name == CATCH_ALL_TOPIC else f"{access_name(stored_name)}/#"


def is_user_name(name: str) -> bool:
    """True if a user may have this name: printable, not reserved, at most MAX_USER_NAME_BYTES, no space at an end."""
    return (
        bool(name)
        and name.isprintable()
        and name == name.strip()
        and name not in (ANONYMOUS, EVERYBODY)
        and len(name.encode("utf-8", "surrogatepass")) <= MAX_USER_NAME_BYTES
    )
