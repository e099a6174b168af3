"""Table: finds the operation of a method and a raw path, by its segments.

A segment of a path is a fixed text, or a name.  A verb stands behind a colon in the last one: `/brokers/{name}:elect`.
The raw path is split before it is decoded, so `%2F` in a name does not split it.  A fixed text comes before a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from entrepot.gateway.operations.operation import Operation

METHODS: Final = ("GET", "POST", "PUT", "DELETE")


class Found(NamedTuple):
    """An operation, its template, and the decoded names of the path."""

    operation: Operation
    template: str
    names: dict[str, str]


class _End(NamedTuple):
    operation: Operation
    template: str
    names: tuple[str, ...]


@dataclass(slots=True)
class _Node:
    fixed: dict[bytes, _Node] = field(default_factory=dict)
    named: _Node | None = None
    ends: dict[tuple[bytes, str], _End] = field(default_factory=dict)
    """By verb (empty for none) and method."""


class Table:
    """All operations of some nouns."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = list(operations)
        self._root = _Node()
        for operation in self.operations:
            for template in operation.templates:
                self._add(operation, template)

    def _add(self, operation: Operation, template: str) -> None:
        node, names = self._root, list[str]()
        *segments, last = template.split("/")[1:]
        plain, _, verb = last.partition(":")
        for segment in (*segments, plain):
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.named = node = node.named or _Node()
            else:
                node = node.fixed.setdefault(segment.encode(), _Node())
        key = verb.encode(), operation.method
        assert key not in node.ends, f"{operation.method} {template} is there twice"
        node.ends[key] = _End(operation, template, tuple(names))

    def find(self, method: str, raw_path: bytes) -> Found | None:
        """Return the operation of a request, or None."""
        segments = raw_path.split(b"/")[1:]
        if b"%" in raw_path:
            segments = [unquote_to_bytes(segment) for segment in segments]
        found = _find(self._root, segments, 0, method, [])
        if found is None:
            return None
        end, values = found
        # invalid UTF-8 gives a name that is never allowed
        names = {name: value.decode("utf-8", "replace") for name, value in zip(end.names, values, strict=True)}
        return Found(end.operation, end.template, names)

    def methods_at(self, raw_path: bytes) -> set[str]:
        """Return the methods of a path; none where there is nothing."""
        return {method for method in METHODS if self.find(method, raw_path) is not None}


def _find(
    node: _Node, segments: list[bytes], at: int, method: str, values: list[bytes]
) -> tuple[_End, list[bytes]] | None:
    if at == len(segments):
        end = node.ends.get((b"", method))
        return None if end is None else (end, values)
    segment = segments[at]
    fixed = node.fixed.get(segment)
    if fixed is not None and (found := _find(fixed, segments, at + 1, method, values)) is not None:
        return found
    if at + 1 == len(segments) and b":" in segment and (found := _with_verb(node, segment, method, values)) is not None:
        return found
    if node.named is not None and segment:
        return _find(node.named, segments, at + 1, method, [*values, segment])
    return None


def _with_verb(node: _Node, segment: bytes, method: str, values: list[bytes]) -> tuple[_End, list[bytes]] | None:
    """Take the text behind the last colon of the last segment for a verb, if there is such a one."""
    plain, _, verb = segment.rpartition(b":")
    fixed = node.fixed.get(plain)
    if fixed is not None and (end := fixed.ends.get((verb, method))) is not None:
        return end, values
    if node.named is not None and plain and (end := node.named.ends.get((verb, method))) is not None:
        return end, [*values, plain]
    return None
