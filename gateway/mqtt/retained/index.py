"""RetainedIndex: the names of the retained messages with their sizes and expiries, in a trie of topic levels.

It is made for many names, so a level has no object of its own: a node is a dictionary from a level to what is below
it, and where that is a single name it is an integer (the name ends there) or a pair (the levels that are left as one
text).  Invariants: `count` and `size_bytes` are those of the names in it, and each name that expires stands in exactly
one bucket of those to be swept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern
from typing import Final, TypeAlias

from domain.retained import NEVER, is_over

PAGE_VISITS: Final = 1000
"""Places in the trie that are looked at for one page of names."""
BUCKET_MS: Final = 10_000
"""Names whose expiries are so near are swept together."""

_OWN: Final = "/"
"""Key of a node for what is kept for its own name: no level is a slash."""
_SIZE_BITS: Final = 32
_Fact: TypeAlias = int
"""Expiry and size in one integer: half the memory of a pair."""
_Child: TypeAlias = "_Fact | tuple[str, _Fact] | dict[str, _Child]"
_Node: TypeAlias = dict[str, _Child]


class RetainedIndex:
    """Names, and what is to be known of each without reading it."""

    def __init__(self) -> None:
        self._root: _Node = {}
        self._due: dict[int, set[str]] = {}
        self.count = 0
        self.size_bytes = 0

    # -- single names ------------------------------------------------------------------------------------------------

    def put(self, name: str, size: int, expires_at_ms: int = NEVER) -> None:
        """Take a name, or what is new of it; `size` in bytes."""
        before = self._set(name, expires_at_ms << _SIZE_BITS | size)
        if before is None:
            self.count += 1
        else:
            self._uncount(name, before)
        self.size_bytes += size
        if expires_at_ms != NEVER:
            self._due.setdefault(expires_at_ms // BUCKET_MS, set()).add(name)

    def _set(self, name: str, fact: _Fact) -> _Fact | None:
        """Put a fact in its place; returns the one that was there."""
        node, rest = self._root, name
        while True:
            level, slash, below = rest.partition("/")
            child = node.get(level)
            if child is None:
                node[intern(level)] = (intern(below), fact) if slash else fact
                return None
            if not isinstance(child, dict):
                before = _fact_of(child, bool(slash), below)
                if before is not None:
                    node[level] = fact if isinstance(child, int) else (child[0], fact)
                    return before
                node[level] = child = _node_of(child)  # two names share the level from here on
            if not slash:
                before = _fact_of(child.get(_OWN), False, "")
                child[_OWN] = fact
                return before
            node, rest = child, below

    def remove(self, name: str) -> bool:
        """Forget a name; says whether it was there."""
        path: list[tuple[_Node, str]] = []
        node, rest = self._root, name
        while True:
            level, slash, below = rest.partition("/")
            child = node.get(level)
            path.append((node, level))
            if isinstance(child, dict):
                node, rest = child, below
                if slash:
                    continue
                path.append((node, _OWN))
                child = node.get(_OWN)
            fact = _fact_of(child, bool(slash), below)
            break
        if fact is None:
            return False
        for parent, level in reversed(path):
            del parent[level]
            if parent:
                break
        self.count -= 1
        self._uncount(name, fact)
        return True

    def _uncount(self, name: str, fact: _Fact) -> None:
        self.size_bytes -= fact & (1 << _SIZE_BITS) - 1
        expires_at_ms = fact >> _SIZE_BITS
        if expires_at_ms != NEVER:
            names = self._due[expires_at_ms // BUCKET_MS]
            names.discard(name)
            if not names:
                del self._due[expires_at_ms // BUCKET_MS]

    def size_of(self, name: str) -> int | None:
        """The bytes that are kept for a name; None where there are none."""
        fact = self._find(name)
        return None if fact is None else fact & (1 << _SIZE_BITS) - 1

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> _Fact | None:
        node, rest = self._root, name
        while True:
            level, slash, below = rest.partition("/")
            child = node.get(level)
            if not isinstance(child, dict):
                return _fact_of(child, bool(slash), below)
            if not slash:
                return _fact_of(child.get(_OWN), False, below)
            node, rest = child, below

    # -- many names --------------------------------------------------------------------------------------------------

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Up to so many names whose expiry has passed, to the bucket."""
        found: list[str] = []
        for bucket in sorted(bucket for bucket in self._due if (bucket + 1) * BUCKET_MS <= now_ms):
            found += self._due[bucket]
            if len(found) >= limit:
                break
        return found[:limit]

    def names(self) -> Iterator[str]:
        """Every name, also those that have expired and those of `$`."""
        for topic_filter in ("#", *(f"{level}/#" for level in tuple(self._root) if level.startswith("$"))):
            for page in self.pages(topic_filter, now_ms=0):
                yield from page

    def pages(self, topic_filter: str, now_ms: int, after: str | None = None) -> Iterator[list[str]]:
        """Names that match a filter and have not expired, page by page; a page comes after PAGE_VISITS places, with
        what was found at them, which may be nothing.

        With `after`, in the order of their levels, those behind it ("": all).  Names may come and go between two
        pages: each one that is there all the time comes once.
        """
        page: list[str] = []
        for visits, name in enumerate(self._visits(topic_filter.split("/"), now_ms, after), 1):
            if name is not None:
                page.append(name)
            if visits % PAGE_VISITS == 0:
                yield page
                page = []
        if page:
            yield page

    def _visits(self, wanted: list[str], now_ms: int, after: str | None) -> Iterator[str | None]:
        """Every place that is looked at: a name, or None where none is to be told.

        A frame of the stack is (what stands before its names, where in the filter, its depth, whether its names may
        still be before `after`, the children left).
        """
        bound = None if after is None else after.split("/")
        stack = [("", 0, 0, bound is not None, _children(self._root, wanted[0], 0, bound, bound is not None))]
        while stack:
            prefix, at, depth, is_bound, children = stack[-1]
            pushed = False
            following = at if wanted[at] == "#" else at + 1
            is_end = following == len(wanted) or wanted[following] == "#"
            for level, child in children:
                name = prefix + level
                below_bound = is_bound and bound is not None and depth < len(bound) and level == bound[depth]
                fact: _Child | None
                if isinstance(child, dict):
                    fact = child.get(_OWN) if is_end else None
                elif isinstance(child, int):
                    fact = child if is_end else None
                else:
                    name = f"{name}/{child[0]}"
                    fact = child[1] if _matches(wanted, following, child[0]) else None
                is_told = isinstance(fact, int) and not is_over(fact >> _SIZE_BITS, now_ms)
                if is_told and below_bound and bound is not None:
                    is_told = name.split("/") > bound
                yield name if is_told else None
                if isinstance(child, dict) and following < len(wanted):
                    below = _children(child, wanted[following], depth + 1, bound, below_bound)
                    stack.append((name + "/", following, depth + 1, below_bound, below))
                    pushed = True
                    break
            if not pushed:
                stack.pop()


def _children(
    node: _Node, want: str, depth: int, bound: list[str] | None, is_bound: bool
) -> Iterator[tuple[str, _Child]]:
    """What is to be looked at below a node, as it is at this moment; in order if there is a bound."""
    if want not in ("+", "#"):
        child = node.get(want)
        found: Iterable[tuple[str, _Child]] = () if child is None else ((want, child),)
    else:
        found = [item for item in node.items() if item[0] != _OWN]
        if depth == 0:
            found = [item for item in found if item[0][:1] != "$"]  # 4.7.2
        if bound is not None:
            found = sorted(found, key=_level)
    if is_bound and bound is not None and depth < len(bound):
        found = [item for item in found if item[0] >= bound[depth]]
    return iter(found)


def _level(item: tuple[str, _Child]) -> str:
    return item[0]


def _matches(wanted: list[str], at: int, rest: str) -> bool:
    """Whether the levels that are left match what is left of a filter."""
    levels = rest.split("/")
    for level in levels:
        if at == len(wanted) or wanted[at] not in ("+", "#", level):
            return False
        if wanted[at] == "#":
            return True
        at += 1
    return at == len(wanted) or wanted[at] == "#"


def _node_of(leaf: _Fact | tuple[str, _Fact]) -> _Node:
    """A node with the one name that a leaf was."""
    if isinstance(leaf, int):
        return {_OWN: leaf}
    level, slash, below = leaf[0].partition("/")
    return {intern(level): (intern(below), leaf[1]) if slash else leaf[1]}


def _fact_of(child: _Child | None, goes_on: bool, below: str) -> _Fact | None:
    """What a leaf says of the name that ends at it, or goes on so."""
    if isinstance(child, int):
        return None if goes_on else child
    return child[1] if isinstance(child, tuple) and goes_on and child[0] == below else None
