"""Pulling: the messages of one queue by offset, without a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from msgspec import Meta

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.query import MAX_QUERY_MESSAGES
from entrepot.gateway.operations.nouns.full_message import FullMessageShown, full_shown
from entrepot.gateway.operations.nouns.messages import DEFAULT_LIMIT
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import contents
from entrepot.gateway.operations.row.shapes import MAX_NUMBER, Offset, Part, PlainName, Query, TopicName

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.row.seen import Contents

MAX_FILTER_LENGTH: Final = 4096


class Pulled(Part, frozen=True):
    value: list[FullMessageShown]
    next_offset: int
    min_offset: int
    max_offset: int


class PullAsked(Query, frozen=True):
    offset: Offset
    limit: Annotated[int, Meta(ge=1, le=MAX_QUERY_MESSAGES)] = DEFAULT_LIMIT
    filter_kind: Annotated[
        Literal["TAG", "SQL92", "SUB_TOPIC"] | None, Meta(description="Kind of the filter; default TAG")
    ] = None
    filter: Annotated[str, Meta(max_length=MAX_FILTER_LENGTH)] | None = None


PULLING: Final = Noun("messages", "/topics/{name}/queues/{queue}/messages", "message", is_in_namespaces=True)


class Pulling:
    """The operation of pulling."""

    def __init__(self, store: Store, contents: Contents) -> None:
        self._store, self._contents = store, contents

    @PULLING.get(
        "",
        "pullMessages",
        "Pull messages of a queue in order, from an offset on",
        contents(),
        shows={"nextOffset": 42, "minOffset": 0, "maxOffset": 44},
    )
    async def pull(self, name: TopicName, queue: PlainName, asked: Asked, query: PullAsked) -> Pulled:
        definition = self._store.topology.topic(name)
        if definition is not None and not definition.permission.readable:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        text, kind = query.filter, query.filter_kind
        if kind is not None and text is None:
            raise bad_request("filter: is missing beside filterKind")
        wanted = None if text is None else FilterExpression(FilterKind(kind or FilterKind.TAG), text)
        pulled = await self._store.messages.pull(name, number_in_path(queue), query.offset, query.limit, wanted)
        shown = self._contents.shown_to(asked.principal)
        return Pulled(
            [full_shown(shown(message)) for message in pulled.messages],
            pulled.next_offset,
            pulled.min_offset,
            pulled.max_offset,
        )


def number_in_path(text: str, what: str = "queue") -> int:
    """Parse a number of the path.  Raises BAD_REQUEST that names `what`."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NUMBER)) else None
    if number is None or number > MAX_NUMBER:
        raise bad_request(f"{what}: {text[:40]!r} is not the number of a {what}")
    return number
