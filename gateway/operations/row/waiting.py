"""Messages that wait and are in no queue yet: what their lists have in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from entrepot.domain.names import split_name
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import MissingError

if TYPE_CHECKING:
    from entrepot.domain.message import StoredMessage
    from entrepot.domain.ports import Store


class Waiting(Protocol):
    """A message that waits."""

    @property
    def message(self) -> StoredMessage: ...


_Waiting = TypeVar("_Waiting", bound=Waiting)


def known_topic(store: Store, asked: Asked, plain: str | None) -> str | None:
    """Return the stored name of a list's topic; None for all.  Raises MissingError if there is no such topic."""
    if plain is None:
        return None
    name = asked.topic(plain)
    if store.topology.topic(name) is None:
        raise MissingError("topic-not-found", "The topic does not exist", f"there is no topic {plain!r}")
    return name


async def waiting_in(
    namespace: str,
    ask: Callable[[Any, int], Awaitable[list[_Waiting]]],
    cursor_of: Callable[[_Waiting], Any],
    after: Any,
    limit: int,
) -> tuple[list[_Waiting], Any]:
    """Return the page of a namespace after a cursor, and its own cursor, or None at the end.  `ask`: the next ones of
    all namespaces after a cursor, so many."""
    found, count = list[_Waiting](), limit + 1
    while len(found) < count:
        page = await ask(after, count)
        found += [each for each in page if split_name(each.message.topic)[0] == namespace]
        if len(page) < count:
            break
        after = cursor_of(page[-1])
    return found[:limit], cursor_of(found[limit - 1]) if len(found) > limit else None
