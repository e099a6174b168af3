"""The viewer: messages of a topic by queue and offset, time, key or id, read without consuming.

Whoever may get the topic sees places, times and sizes; only who may subscribe to all of it sees keys, properties and
bodies, and may search in them.  Offsets are texts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.gateway.operations.nouns.pulling import MAX_FILTER_LENGTH
from entrepot.gateway.operations.nouns.viewer import EXAMPLE, NEWEST_FIRST, View, ViewedMessageShown, Viewer
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import contents, on
from entrepot.gateway.operations.row.shapes import (
    MAX_CURSOR_LENGTH,
    MAX_NUMBER,
    Part,
    PlainName,
    Query,
    Raw,
    TopicName,
    shown_as,
)
from entrepot.gateway.operations.row.times import epoch_ms_of
from entrepot.gateway.security.security import refusal_of

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.row.seen import Contents
    from entrepot.gateway.security.security import Security

MAX_SHOWN: Final = 200
DEFAULT_SHOWN: Final = 32
MAX_SCANNED: Final = 10_000
DEFAULT_SCANNED: Final = 1000
MAX_BODY_BYTES: Final = 64 << 10
"""Most bytes of one body in a list; the operation of the body has all of them."""
DEFAULT_BODY_BYTES: Final = 1024
MAX_SEARCH: Final = 256
_BYTES: Final = "application/octet-stream"
_NOT_FOR_BROWSERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_Queue = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
_Digits = Annotated[str, Meta(pattern=r"^[0-9]{1,19}\Z")]
_Key = Annotated[str, Meta(min_length=1, max_length=MAX_SEARCH)]
_Id = Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR_LENGTH)]
_Filter = Annotated[str, Meta(max_length=MAX_FILTER_LENGTH)]


class Viewed(Part, frozen=True):
    value: list[ViewedMessageShown]
    next: str | None
    looked_at: int
    min_offset: str | None
    max_offset: str | None


shown_as(Viewed([EXAMPLE], "41", 32, "0", "44"))


class ViewAsked(Query, frozen=True):
    queue: Annotated[_Queue | None, Meta(description="One queue; else the newest of all queues")] = None
    offset: Annotated[_Digits | None, Meta(description="Of one queue: begin at it, or backward: before it")] = None
    direction: Annotated[Literal["forward", "backward"], Meta(description="Of one queue: order of the answer")] = (
        NEWEST_FIRST
    )
    begin: Annotated[str | None, Meta(description="Stored at or after: RFC 3339 or epoch milliseconds")] = (
        msgspec.field(default=None, name="from")
    )
    end: Annotated[str | None, Meta(description="Stored before: RFC 3339 or epoch milliseconds")] = msgspec.field(
        default=None, name="to"
    )
    key: Annotated[_Key | None, Meta(description="Key of the messages")] = None
    id: Annotated[_Id | None, Meta(description="Id of the messages")] = None
    cursor: Annotated[_Id | None, Meta(description="Of all queues: `next`")] = None
    filter_kind: Literal["TAG", "SQL92", "SUB_TOPIC"] = "TAG"
    filter: _Filter | None = None
    text: Annotated[
        str, Meta(max_length=MAX_SEARCH, description="Text in names, keys, tag and properties, in any case")
    ] = ""
    body_text: Annotated[str, Meta(max_length=MAX_SEARCH, description="Text in the bodies, in any case")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_SHOWN)] = DEFAULT_SHOWN
    scan: Annotated[int, Meta(ge=1, le=MAX_SCANNED, description="Most messages to look at")] = DEFAULT_SCANNED
    body_bytes: Annotated[int, Meta(ge=0, le=MAX_BODY_BYTES, description="Most bytes of a body; 0: none")] = (
        DEFAULT_BODY_BYTES
    )


class OneAsked(Query, frozen=True):
    body_bytes: Annotated[int, Meta(ge=0, le=MAX_BODY_BYTES)] = DEFAULT_BODY_BYTES


VIEWING: Final = Noun("messages", "/topics/{name}/messages", "message", is_in_namespaces=True)
_SEEN: Final = on(ResourceType.TOPIC, Action.GET)


class Viewing:
    """The operations of the viewer."""

    def __init__(self, store: Store, security: Security, contents: Contents) -> None:
        self._store, self._security, self._contents = store, security, contents

    @VIEWING.get(
        "",
        "viewMessages",
        "View messages of a topic without consuming them",
        _SEEN,
        about="Nothing is consumed. Keys, properties and bodies need SUB on the whole topic, and so do searches.",
        outcome="The messages, and where to go on: `offset` of a queue, else `cursor`",
    )
    async def view(self, name: TopicName, asked: Asked, query: ViewAsked) -> Viewed:
        view = _view(query)
        viewer = self._viewer(asked, name)
        if view.is_search and not viewer.sees_contents:
            raise refusal_of(Action.SUB, ResourceType.TOPIC, whole_topic(name))
        scan, bounds = await viewer.scan(view)
        return Viewed(
            viewer.rows(scan.found, view.body_bytes),
            scan.next,
            scan.looked_at,
            None if bounds is None else str(bounds.min_offset),
            None if bounds is None else str(bounds.max_offset),
        )

    @VIEWING.get("/{queue}/{offset}", "viewMessage", "View one message without consuming it", _SEEN)
    async def one(
        self, name: TopicName, queue: PlainName, offset: PlainName, asked: Asked, query: OneAsked
    ) -> ViewedMessageShown:
        viewer = self._viewer(asked, name)
        message = await viewer.message_at(queue, offset)
        return viewer.rows([message], query.body_bytes)[0]

    @VIEWING.get(
        "/{queue}/{offset}/body",
        "downloadBody",
        "Download the body of a message without consuming it",
        contents(),
        outcome="The whole body, as a file",
        shows={_BYTES: "now"},
    )
    async def body(self, name: TopicName, queue: PlainName, offset: PlainName, asked: Asked) -> Raw:
        viewer = self._viewer(asked, name)
        message = await viewer.message_at(queue, offset)
        if not viewer.sees_contents:
            raise EntrepotError(Code.FORBIDDEN, f"topic {name!r} is not readable")
        body = self._contents.body(asked.principal, message)
        where = f"queue {message.queue_id}, offset {message.queue_offset}"
        self._contents.note(asked.principal, name, f"{where}: download")
        file_name = _FILE_NAME.sub("_", f"{asked.plain['name']}-{message.queue_id}-{message.queue_offset}")
        return Raw(
            body, _BYTES, {"content-disposition": f'attachment; filename="{file_name}.bin"', **_NOT_FOR_BROWSERS}
        )

    def _viewer(self, asked: Asked, name: str) -> Viewer:
        return Viewer(self._store, self._security, self._contents, asked.principal, name)


def _view(query: ViewAsked) -> View:
    return View(
        query.queue,
        query.offset,
        query.direction,
        None if query.begin is None else epoch_ms_of(query.begin, "from"),
        None if query.end is None else epoch_ms_of(query.end, "to"),
        query.key,
        query.id,
        query.cursor,
        None if query.filter is None else FilterExpression(FilterKind(query.filter_kind), query.filter),
        query.text.casefold(),
        query.body_text.casefold(),
        query.limit,
        query.scan,
        query.body_bytes,
    )
