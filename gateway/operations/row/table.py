"""Table: finds the operation of a method and a raw path, by its segments.

A segment of a path is a fixed text, or a name.  A verb stands after a colon in the last one: `/brokers/{name}:elect`.
The raw path is split before it is decoded, so `%2F` in a name does not split it.  A fixed text comes before a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from entrepot.gateway.operations.row.operation import Operation

_T = TypeVar("_T")
_NO_VERB: Final = b""
MAX_REMEMBERED: Final = 1024
"""Paths whose operation is remembered, each of at most MAX_REMEMBERED_BYTES."""
MAX_REMEMBERED_BYTES: Final = 256


class _End(NamedTuple, Generic[_T]):
    value: _T
    template: str
    names: tuple[str, ...]


@dataclass(slots=True)
class _Node(Generic[_T]):
    fixed: dict[bytes, _Node[_T]] = field(default_factory=dict)
    named: _Node[_T] | None = None
    ends: dict[bytes, dict[str, _End[_T]]] = field(default_factory=dict)
    """By verb and method."""


class PathTree(Generic[_T]):
    """Values by the template of a path and a method."""

    def __init__(self) -> None:
        self._root: _Node[_T] = _Node()

    def add(self, method: str, template: str, value: _T) -> None:
        """Add a value.  Raises AssertionError where there is one already."""
        node, names = self._root, list[str]()
        *segments, last = template.split("/")[1:]
        plain, _, verb = last.partition(":")
        for segment in (*segments, plain):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.named = node = node.named or _Node()
            else:
                node = node.fixed.setdefault(segment.encode(), _Node())
        ends = node.ends.setdefault(verb.encode(), {})
        assert method not in ends, f"{method} {template} is there twice"
        ends[method] = _End(value, template, tuple(names))

    def find(self, method: str, raw_path: bytes) -> tuple[_T, str, dict[str, str]] | None:
        """Return the value of a method and a path, its template, and the decoded names; None where there is none."""
        for ends, values in _ends_at(self._root, _segments(raw_path), 0, ()):
            end = ends.get(method)
            if end is not None:
                # invalid UTF-8 gives a name that is never allowed
                names = {name: raw.decode("utf-8", "replace") for name, raw in zip(end.names, values, strict=True)}
                return end.value, end.template, names
        return None

    def template_at(self, raw_path: bytes) -> str | None:
        """Return the template of a path, whatever its method; None where there is nothing."""
        ends = next(_ends_at(self._root, _segments(raw_path), 0, ()), None)
        return None if ends is None else next(iter(ends[0].values())).template

    def methods_at(self, raw_path: bytes) -> set[str]:
        """Return the methods of a path; none where there is nothing."""
        return {method for ends, _ in _ends_at(self._root, _segments(raw_path), 0, ()) for method in ends}


def _segments(raw_path: bytes) -> list[bytes]:
    segments = raw_path.split(b"/")[1:]
    return [unquote_to_bytes(segment) for segment in segments] if b"%" in raw_path else segments


def _ends_at(
    node: _Node[_T], segments: list[bytes], at: int, values: tuple[bytes, ...]
) -> Iterator[tuple[dict[str, _End[_T]], tuple[bytes, ...]]]:
    """Yield all ends of a path, those with more fixed text first, with the values of their names."""
    if at == len(segments):
        if _NO_VERB in node.ends:
            yield node.ends[_NO_VERB], values
        return
    segment = segments[at]
    fixed = node.fixed.get(segment)
    if fixed is not None:
        yield from _ends_at(fixed, segments, at + 1, values)
    if at + 1 == len(segments) and b":" in segment:
        plain, _, verb = segment.rpartition(b":")
        fixed = node.fixed.get(plain)
        if verb and fixed is not None and verb in fixed.ends:  # a name may end in a colon
            yield fixed.ends[verb], values
        if verb and node.named is not None and plain and verb in node.named.ends:
            yield node.named.ends[verb], (*values, plain)
    if node.named is not None and segment:
        yield from _ends_at(node.named, segments, at + 1, (*values, segment))


class Found(NamedTuple):
    """An operation, its template, and the decoded names of the path, which stay as they are."""

    operation: Operation
    template: str
    names: Mapping[str, str]


class Table:
    """All operations of some nouns."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)
        self._tree: PathTree[Operation] = PathTree()
        for operation in self.operations:
            for template in operation.templates:
                self._tree.add(operation.method, template, operation)
        self._found: dict[tuple[str, bytes], Found] = {}

    def find(self, method: str, raw_path: bytes) -> Found | None:
        """Return the operation of a request, or None.  Frequent paths are remembered."""
        known = self._found.get((method, raw_path))
        if known is not None:
            return known
        found = self._tree.find(method, raw_path)
        if found is None:
            return None
        made = Found(*found)
        if len(raw_path) <= MAX_REMEMBERED_BYTES:
            if len(self._found) >= MAX_REMEMBERED:
                self._found.clear()
            self._found[method, raw_path] = made
        return made

    def methods_at(self, raw_path: bytes) -> set[str]:
        """Return the methods of a path; none where there is nothing."""
        return self._tree.methods_at(raw_path)

    def template_at(self, raw_path: bytes) -> str | None:
        """Return the template of a path, whatever its method; None where there is nothing."""
        return self._tree.template_at(raw_path)
