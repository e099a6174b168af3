"""Asked: one request as an operation sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from entrepot.domain.access.model import Principal
from entrepot.domain.names import (
    DEFAULT_NAMESPACE,
    NAMESPACE_SEPARATOR,
    check_group_name,
    check_topic_name,
    qualified,
)
from entrepot.gateway.operations.row.problem import MissingError

if TYPE_CHECKING:
    from entrepot.domain.ports import Store


HEAD: Final = "entrepot.head"
"""Mark of the scope of a HEAD request, which is answered as a GET."""


_T = TypeVar("_T")


class WhileConnected(Protocol):
    """Awaits work for a client that may go."""

    def __call__(self, work: Awaitable[_T], /) -> Awaitable[_T]: ...


class Asked:
    """The names of the path, each resolved once, and who asks.  `plain`: the names as they stand in the path; `query`:
    parameters, the last of each name; `cluster`: name of the Cluster resource; `told`: what the audit log says beside
    the path, by resource and detail.

    Of a request itself: `scope`, as ASGI has it; `answer_headers`, which go with the answer, also with a problem;
    `may_go_on`: whether the client of an endless answer still may have it; `read_body`: reads a body that the row does
    not read; `while_connected`: returns the outcome of a long poll, or cancels it once the client has gone.
    """

    __slots__ = (
        "answer_headers",
        "cluster",
        "may_go_on",
        "namespace",
        "plain",
        "principal",
        "query",
        "read_body",
        "scope",
        "stored",
        "told",
        "while_connected",
    )

    def __init__(
        self, plain: Mapping[str, str], query: Mapping[str, str], principal: Principal, cluster: str = ""
    ) -> None:
        self.plain, self.query, self.principal, self.cluster = plain, query, principal, cluster
        self.namespace = plain.get("namespace", DEFAULT_NAMESPACE)
        self.stored: dict[str, str] = {}
        self.told: tuple[tuple[str, str], ...] | None = None
        self.scope: MutableMapping[str, Any] = {}
        self.answer_headers: dict[str, str] = {}
        self.may_go_on: Callable[[], Awaitable[bool]] | None = None
        self.read_body: Callable[[], Awaitable[bytes]] = _no_body
        self.while_connected: WhileConnected = _as_it_is

    @property
    def is_head(self) -> bool:
        """True for a HEAD request, which must have no effect."""
        return HEAD in self.scope

    def group(self, plain: str) -> str:
        """Return the stored name of a group in the path's namespace.  Raises ILLEGAL_CONSUMER_GROUP."""
        if NAMESPACE_SEPARATOR in plain:
            check_group_name(plain)
        return qualified(self.namespace, plain)

    def topic(self, plain: str) -> str:
        """Return the stored name of a topic in the path's namespace.  Raises ILLEGAL_TOPIC."""
        if NAMESPACE_SEPARATOR in plain:
            check_topic_name(plain)
        return qualified(self.namespace, plain)

    def tell(self, resource: str = "", detail: str = "") -> None:
        """Name the changed resource better than the path does, and add details.  Neither may contain a secret."""
        self.told = ((resource, detail),)

    def tell_each(self, resources: Iterable[str], detail: str = "") -> None:
        """Name all changed resources of one request: each has an entry in the audit log.  None of them: none."""
        self.told = tuple((resource, detail) for resource in resources)


async def _no_body() -> bytes:
    return b""


async def _as_it_is(work: Awaitable[_T]) -> _T:
    return await work


def known_namespace(store: Store, name: str) -> str:
    """Return the name.  Raises MissingError if there is no such namespace."""
    if name != DEFAULT_NAMESPACE and name not in store.topology.namespaces():
        raise MissingError(
            "namespace-not-found", "The namespace does not exist", f"there is no namespace {name[:80]!r}"
        )
    return name
