"""Operation: one row of the REST API, written beside its handler.

Input and output are read from the handler's signature, once, when the row is made: names of the path by their
kind, one `Query`, one `Body`, `Asked`, and the answer.

ADR 79: an operation is written once.  Invariant: a row that cannot be read so is a TypeError at import.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args, get_type_hints

import msgspec

from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import NAMESPACE_PATH, change_of
from entrepot.gateway.operations.row.problem import Form
from entrepot.gateway.operations.row.rights import Right
from entrepot.gateway.operations.row.shapes import (
    Body,
    GroupName,
    Head,
    PlainName,
    Query,
    RawBody,
    TopicName,
    WholeName,
)

PREFIX: Final = "/api/v1"
AS_ASKED: Final = "As asked"
"""Description of an answer whose row has none."""
_KINDS_OF_NAMES: Final = (GroupName, TopicName, PlainName, WholeName)
Table = tuple[Iterable[str], Iterable[Iterable[object]]]
_HandlerT = TypeVar("_HandlerT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Words:
    """A command of an operation.  `columns`, `cells`: of a list; names of members are cells, too, and columns are
    where no cells are said.  `continued_by`: the option for the next page.  `whole`: rows of a page where all pages are
    one list.  `is_paged`: all pages are, unless an option is given.  `tables`: of an answer, each its columns and rows.

    `outcome`: the line of a change, with the path's names and parts of the `answer` in braces.  `confirm`: the question
    before one, likewise with options.  `must_exist`: a PUT changes only what is there.  `shown_as`: metavar of each
    name of the path; else in capitals the noun's word for `name`, and others themselves.  `done`: what JSON tells of a
    change without an answer; `keyed`: the path's names there, where they are other words.

    A command without any of them prints JSON."""

    command: str
    help: str
    columns: tuple[str, ...] = ()
    cells: Callable[[dict[str, Any]], tuple[object, ...]] | tuple[str, ...] = ()
    tables: Callable[[dict[str, Any]], Iterable[Table]] | None = None
    outcome: str = ""
    confirm: str = ""
    continued_by: str = ""
    whole: int = 0
    is_paged: bool = False
    must_exist: bool = False
    done: str = "deleted"
    keyed: Mapping[str, str] = field(default_factory=dict)
    shown_as: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One row.  `change`: the event of its entries in the audit log; empty for none.  `names`: kinds of the path's
    names.  `body`: a struct, a union of structs that a field tells apart, or RawBody; None for none.

    For the document: `example` of the body; `shows`, members of the answer's example that no type gives, such as a
    cursor, or of a raw answer its example, by media type; `outcome`, of the answer; `answer_headers`, by name.  Of a
    body that a handler reads itself, `body_as` makes the schema, by `Schemas`; `comes_as` has schema and example, by
    media type; `heads`.  `refused_by`: statuses that no other row has.

    `is_plain`: in no namespace, though its noun is.  `waits`: its handler is cancelled once the client has gone.
    """

    noun: Noun
    method: str
    path: str
    id: str
    summary: str
    right: Right
    handler: Callable[..., Any]
    change: str
    names: Mapping[str, Any]
    query: type[Query] | None
    body: Any
    head: type[Head] | None
    takes_asked: bool
    answer: Any
    about: str = ""
    example: Any = None
    shows: Mapping[str, Any] = field(default_factory=dict)
    outcome: str = AS_ASKED
    words: tuple[Words, ...] = ()
    is_plain: bool = False
    waits: bool = False
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    body_as: Callable[[Any], dict[str, Any]] | None = None
    comes_as: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    heads: type[Head] | None = None
    refused_by: tuple[int, ...] = ()

    @property
    def is_in_namespaces(self) -> bool:
        """True if it is there in each namespace, too."""
        return self.noun.is_in_namespaces and not self.is_plain

    @property
    def needs_body(self) -> bool:
        """True if an empty body is refused."""
        if self.body is RawBody:
            return True
        return any(field.required for each in kinds_of(self.body) for field in msgspec.structs.fields(each))

    @property
    def templates(self) -> tuple[str, ...]:
        """Its paths: one, or two where it is in namespaces."""
        if not self.is_in_namespaces:
            return (self.path,)
        prefix = self.noun.prefix
        return self.path, prefix + NAMESPACE_PATH + self.path.removeprefix(prefix)


class Noun:
    """A noun of the API.  `name`: its tag in the document.  `one`, `about`: a single one, and the help of its group, in
    commands; `group`: that group, where it has another name; `helps`: help of names of its paths there.  `prefix`: of
    its paths, before that of a namespace.  `form`: of its problems."""

    def __init__(
        self,
        name: str,
        path: str,
        one: str = "",
        about: str = "",
        *,
        group: str = "",
        is_in_namespaces: bool = False,
        prefix: str = PREFIX,
        form: Form = Form.PLAIN,
        helps: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name, self.path, self.one, self.about, self.helps = name, path, one, about, helps
        self.group = group or one
        self.is_in_namespaces, self.prefix, self.form = is_in_namespaces, prefix, form
        self.operations: list[Operation] = []

    def get(self, path: str, name: str, summary: str, right: Right, **more: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self._add("GET", path, name, summary, right, **more)

    def put(self, path: str, name: str, summary: str, right: Right, **more: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self._add("PUT", path, name, summary, right, **more)

    def post(self, path: str, name: str, summary: str, right: Right, **more: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self._add("POST", path, name, summary, right, **more)

    def delete(self, path: str, name: str, summary: str, right: Right, **more: Any) -> Callable[[_HandlerT], _HandlerT]:
        return self._add("DELETE", path, name, summary, right, **more)

    def options(
        self, path: str, name: str, summary: str, right: Right, **more: Any
    ) -> Callable[[_HandlerT], _HandlerT]:
        return self._add("OPTIONS", path, name, summary, right, **more)

    def _add(
        self,
        method: str,
        path: str,
        name: str,
        summary: str,
        right: Right,
        *,
        words: Words | tuple[Words, ...] = (),
        change: str | None = None,
        **more: Any,
    ) -> Callable[[_HandlerT], _HandlerT]:
        """Add a row.  `name`: its id in the document.  `change`: None for the event that its template gives.  `more`:
        fields of the row."""

        def register(handler: _HandlerT) -> _HandlerT:
            full = self.prefix + self.path + path
            told = change_of(method, full) if change is None else change
            more["words"] = (words,) if isinstance(words, Words) else words
            parts = _parts_of(handler, full)
            row = Operation(self, method, full, name, summary, right, handler, told, **parts, **more)
            self.operations.append(row)
            return handler

        return register


def _parts_of(handler: Callable[..., Any], path: str) -> dict[str, Any]:
    """Return what the parameters of a handler are.  Raises TypeError."""
    hints = get_type_hints(handler, include_extras=True)
    names: dict[str, Any] = {}
    found: dict[str, Any] = {"names": names, "query": None, "body": None, "head": None, "takes_asked": False}
    found["answer"] = hints["return"]
    for name in list(inspect.signature(handler).parameters)[1:]:  # the first is the noun's object
        kind = hints[name]
        if kind in _KINDS_OF_NAMES:
            names[name.rstrip("_")] = kind  # `id_` is the path's `id`
        elif kind is Asked and name == "asked":
            found["takes_asked"] = True
        elif name == "body" and (kind is RawBody or kinds_of(kind)):
            found["body"] = kind
        elif name in found and isinstance(kind, type) and issubclass(kind, Query | Head):
            found[name] = kind
        else:
            raise TypeError(f"{handler.__qualname__}: {name} is not part of a request")
    if sorted(names) != sorted(part[1:].partition("}")[0] for part in path.split("/") if part.startswith("{")):
        raise TypeError(f"{handler.__qualname__} does not take the names of {path}")
    return found


def kinds_of(body: Any) -> tuple[type[Body], ...]:
    """Return the structs that a body may be; none where it is not a struct."""
    several = get_args(body) or (body,)
    return several if all(isinstance(each, type) and issubclass(each, Body) for each in several) else ()
