"""Rights of operations, on names that are resolved already.  A row without one cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, access_name, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.gateway.operations.row.asked import Asked

PROTOCOL: Final = "http"
"""Name of the REST API in decisions on rights, and in the audit log."""
DEFAULT_CLUSTER: Final = "default"
"""Name of the Cluster resource if the settings have none."""
_IN_NAMESPACES: Final = frozenset((ResourceType.TOPIC, ResourceType.GROUP))


@dataclass(frozen=True, slots=True)
class Right:
    """`needs`: what a request needs, by the noun's object and the request.  `refusal`: a text that does not tell what
    is there.  `is_for_super_users`: for them alone.  `tells_namespace`: who has it may know that there is no such
    namespace; else the handler asks.  `opened_by`: the setting of security that opens it to everybody; ALWAYS: no
    setting closes it.  `named`: what is needed besides, by the noun's object, the request and its body, on what the
    body names."""

    needs: Callable[[Any, Asked], list[Need]]
    refusal: Callable[[Asked], str] | None = None
    is_for_super_users: bool = False
    tells_namespace: bool = True
    opened_by: str = ""
    named: Callable[[Any, Asked, Any], list[Need]] | None = None


ALWAYS: Final = "always"


def on(kind: ResourceType, action: Action, parameter: str = "name") -> Right:
    """A right on a name of the path."""

    def needs(own: Any, asked: Asked) -> list[Need]:
        stored = asked.stored[parameter]
        return [Need(action, kind, access_name(stored) if kind in _IN_NAMESPACES else stored)]

    return Right(needs)


def listed(kind: ResourceType) -> Right:
    """Listing all entities of a kind."""
    return Right(lambda own, asked: [Need(Action.LIST, kind, EVERYTHING)])


def putting(kind: ResourceType, find: Callable[[Any, str], object | None]) -> Right:
    """Creating or changing the path's entity.  The refusal names both rights, so it does not tell if there is one.

    `find`: the entity of a stored name, by the noun's object.
    """

    def needs(own: Any, asked: Asked) -> list[Need]:
        stored = asked.stored["name"]
        return [making(kind, stored, find(own, stored))]

    return Right(needs, lambda asked: refused_making(kind, asked.stored["name"]))


def making(kind: ResourceType, stored: str, known: object | None) -> Need:
    """Return the right to create a topic or a group, or to change it if it is `known`."""
    return Need(Action.CREATE if known is None else Action.UPDATE, kind, access_name(stored))


def refused_making(kind: ResourceType, stored: str) -> str:
    """Return the text of a refusal of `making`, which does not tell if there is one."""
    return f"{Action.CREATE} or {Action.UPDATE} on {kind} {access_name(stored)[:160]!r} is not allowed"


def fixed(*wanted: tuple[Action, ResourceType]) -> Right:
    """Rights on everything of some kinds."""
    return Right(lambda own, asked: [Need(action, kind, EVERYTHING) for action, kind in wanted])


def cluster(action: Action) -> Right:
    """A right on the cluster."""
    return Right(lambda own, asked: [Need(action, ResourceType.CLUSTER, asked.cluster)])


def naming(right: Right, named: Callable[[Any, Asked, Any], list[Need]]) -> Right:
    """A right on the path, with those on what the body names."""
    return replace(right, named=named)


def open_by(setting: str, otherwise: Right) -> Right:
    """Open to everybody where the setting of security says so."""
    return replace(otherwise, opened_by=setting)


def contents(parameter: str = "name") -> Right:
    """Reading all messages of the path's topic."""
    return Right(lambda own, asked: [Need(Action.SUB, ResourceType.TOPIC, whole_topic(asked.stored[parameter]))])


def consuming(topic: str, group: str) -> Right:
    """Consuming a topic as a member of a group, by the path's parameters."""
    first, second = contents(topic), on(ResourceType.GROUP, Action.SUB, group)
    return Right(lambda own, asked: [*first.needs(own, asked), *second.needs(own, asked)])


def reading(asked: Asked, plain: str) -> Need:
    """Return the right to read all messages of a topic that a query or a body names."""
    return Need(Action.SUB, ResourceType.TOPIC, whole_topic(asked.topic(plain)))


def _contents_in_query(own: Any, asked: Asked) -> list[Need]:
    plain = asked.query.get("topic")
    return [reading(asked, plain) if plain else Need(Action.SUB, ResourceType.TOPIC, EVERYTHING)]


CONTENTS_IN_QUERY: Final = Right(_contents_in_query)
"""Reading all messages of the query's topic; of every topic if it names none."""
HANDLERS_OWN: Final = Right(lambda own, asked: [], tells_namespace=False)
"""Rights that the handler checks, because a body or a list names the subjects."""
NO_RIGHTS: Final = Right(lambda own, asked: [])
"""No right, only a principal."""
OPEN: Final = Right(lambda own, asked: [], tells_namespace=False, opened_by=ALWAYS)
"""Open to everybody: the handler asks who it is, or a name of the path is the right."""
SUPER_USERS: Final = Right(lambda own, asked: [], is_for_super_users=True)
