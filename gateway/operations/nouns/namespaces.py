"""Namespaces: list, show, create, delete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.gateway.operations.row.asked import known_namespace
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.rights import listed, on
from entrepot.gateway.operations.row.shapes import Body, Continued, Made, PlainName, Query, Shown, shown_as

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.amqp.frontend import AmqpFrontend

MAX_LIMIT: Final = 10_000
MAX_TEXT: Final = 1024


class NamespaceShown(Shown, frozen=True):
    """A namespace, and what is in it; null where AMQP is disabled"""

    name: str
    topics: int
    groups: int
    vhost: str | None
    queues: int | None
    exchanges: int | None
    queue_policies: int | None


shown_as(NamespaceShown("team", topics=3, groups=2, vhost="team", queues=5, exchanges=8, queue_policies=1))


class NamespaceChange(Body, frozen=True):
    """Change of a namespace: empty so far."""


class NamespacesAsked(Query, frozen=True):
    after: Annotated[str, Meta(max_length=MAX_TEXT, description="Namespace after which the list begins")] = ""
    find: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the name, in any case")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = MAX_LIMIT


NAMESPACES: Final = Noun("namespaces", "/namespaces", "namespace", "Namespaces of a running server.")


class Namespaces:
    """The operations of namespaces, themselves in no namespace."""

    def __init__(self, store: Store, amqp: AmqpFrontend | None) -> None:
        self._store, self._amqp = store, amqp

    @NAMESPACES.get(
        "",
        "listNamespaces",
        "List all namespaces, `default` first",
        listed(ResourceType.NAMESPACE),
        shows={"next": "team"},
        words=Words(
            "list",
            "List every namespace with its number of topics and groups.",
            columns=("namespace", "topics", "groups"),
            cells=("name", "topics", "groups"),
        ),
    )
    async def listed(self, query: NamespacesAsked) -> Continued[NamespaceShown]:
        part, behind = query.find.casefold(), _place(query.after) if query.after else None
        found = [
            name
            for name in sorted(self._store.topology.namespaces(), key=_place)
            if part in name.casefold() and (behind is None or _place(name) > behind)
        ]
        shown = self._shown()
        following = found[query.limit - 1] if len(found) > query.limit else None
        return Continued([shown(name) for name in found[: query.limit]], following)

    @NAMESPACES.get("/{name}", "getNamespace", "Get a namespace", on(ResourceType.NAMESPACE, Action.GET))
    async def show(self, name: PlainName) -> NamespaceShown:
        return self._shown()(known_namespace(self._store, name))

    @NAMESPACES.put(
        "/{name}",
        "putNamespace",
        "Create a namespace",
        on(ResourceType.NAMESPACE, Action.CREATE),
        example={},
        words=Words("create", "Create a namespace unless it exists.", outcome="namespace {name} is there"),
    )
    async def put(self, name: PlainName, body: NamespaceChange) -> Made[NamespaceShown]:
        is_new = name not in self._store.topology.namespaces()
        await self._store.topology.put_namespace(name)
        return Made(self._shown()(name), is_new)

    @NAMESPACES.delete(
        "/{name}",
        "deleteNamespace",
        "Delete an empty namespace",
        on(ResourceType.NAMESPACE, Action.DELETE),
        words=Words(
            "delete",
            "Delete an empty namespace. Asks for confirmation.",
            outcome="namespace {name} deleted",
            confirm="Delete the namespace {name}?",
        ),
    )
    async def delete(self, name: PlainName) -> None:
        await self._store.topology.delete_namespace(known_namespace(self._store, name))

    def _shown(self) -> Callable[[str], NamespaceShown]:
        """Return a function that shows a namespace; all topics and groups are counted once for it."""
        topology, amqp = self._store.topology, self._amqp
        topics = Counter(split_name(topic.name)[0] for topic in topology.topics())
        groups = Counter(split_name(group.name)[0] for group in topology.groups())

        def shown(name: str) -> NamespaceShown:
            vhost = None if amqp is None else amqp.virtual_hosts.definitions.vhost_in(name)
            of_amqp: tuple[Any, ...] = (None,) * 4
            if vhost is not None:
                exchanges = sum(1 for _ in vhost.routing.exchanges())
                of_amqp = (vhost.name, len(vhost.queues), exchanges, len(vhost.policies()))
            return NamespaceShown(name, topics[name], groups[name], *of_amqp)

        return shown


def _place(name: str) -> tuple[bool, str]:
    """Sort key: the default namespace first."""
    return name != DEFAULT_NAMESPACE, name
