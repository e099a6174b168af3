"""LIKE patterns, matched in one pass over any text.  A pattern is cut at its `%` into segments of fixed length.  The
first and the last are compared in their places.  Each one between is searched from the end of the one before it,
leftmost first.  That choice never has to be undone, since a segment found earlier leaves more room for the others."""

from __future__ import annotations

from typing import Final

from entrepot.domain.expression.fault import fault, shown

_ONE: Final = None
"""Any one character: `_` in a segment."""

_Segment = tuple[str | None, ...]


class LikePattern:
    """A compiled pattern: `%` is any text, `_` any one character, and either is literal after the escape character."""

    __slots__ = ("_head", "_middle", "_shortest", "_tail")

    def __init__(self, pattern: str, escape: str | None, place: int) -> None:
        """Compile a pattern.  Raises ILLEGAL_FILTER_EXPRESSION at `place` for an escape that escapes nothing."""
        head, *others = _segments(pattern, escape, place)
        self._head = _Run(head)
        self._tail = _Run(others[-1]) if others else None
        self._middle = tuple(_Run(segment) for segment in others[:-1] if segment)
        self._shortest = len(head) + sum(map(len, others))

    def matches(self, text: str) -> bool:
        """True if the whole text matches the pattern; case counts."""
        if len(text) < self._shortest or not self._head.is_at(text, 0):
            return False
        if self._tail is None:
            return len(text) == self._shortest
        stop = len(text) - self._tail.length
        if not self._tail.is_at(text, stop):
            return False
        place = self._head.length
        for run in self._middle:
            place = run.find(text, place, stop)
            if place < 0:
                return False
            place += run.length
        return True


def _segments(pattern: str, escape: str | None, place: int) -> list[_Segment]:
    segments: list[_Segment] = []
    segment: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise fault(f"in the pattern {shown(pattern)} the escape {escape!r} escapes nothing", place)
            segment.append(escaped)
        elif character == "%":
            segments.append(tuple(segment))
            segment = []
        else:
            segment.append(_ONE if character == "_" else character)
    segments.append(tuple(segment))
    return segments


class _Run:
    """A segment: characters and `_`.  `str.find` finds it unless a `_` stands between its characters."""

    __slots__ = ("_after", "_any", "_before", "_goal", "_literals", "_masks", "_only", "length")

    def __init__(self, segment: _Segment) -> None:
        self.length = len(segment)
        self._literals = _literals(segment)
        first = self._literals[0] if self._literals else (0, "")
        last = self._literals[-1] if self._literals else first
        self._before = first[0]
        self._after = self.length - last[0] - len(last[1])
        self._only = first[1] if len(self._literals) <= 1 else None
        core = segment[self._before : self.length - self._after] if self._only is None else ()
        self._any = sum(1 << bit for bit, want in enumerate(core) if want is _ONE)
        self._masks: dict[str, int] = {}
        for bit, want in enumerate(core):
            if want is not _ONE:
                self._masks[want] = self._masks.get(want, self._any) | 1 << bit
        self._goal = 1 << len(core) >> 1

    def is_at(self, text: str, place: int) -> bool:
        """True if the segment is at the place; the text is long enough."""
        return all(text.startswith(literal, place + offset) for offset, literal in self._literals)

    def find(self, text: str, start: int, stop: int) -> int:
        """Return the first place of the segment within text[start:stop], or -1."""
        if stop - start < self.length:
            return -1
        start, stop = start + self._before, stop - self._after
        found = text.find(self._only, start, stop) if self._only is not None else self._scan(text, start, stop)
        return found - self._before if found >= 0 else -1

    def _scan(self, text: str, start: int, stop: int) -> int:
        """Shift-and: bit n of the state says that the core's first n + 1 places match the last characters.  It takes
        one step a character; comparing at every place would take the product of both lengths."""
        state, masks, otherwise, goal = 0, self._masks, self._any, self._goal
        for place in range(start, stop):
            state = (state << 1 | 1) & masks.get(text[place], otherwise)
            if state & goal:
                return place + 1 - (self.length - self._before - self._after)
        return -1


def _literals(segment: _Segment) -> list[tuple[int, str]]:
    """Return the stretches of a segment without `_`, with their offsets."""
    literals: list[tuple[int, str]] = []
    stretch = ""
    for offset, want in enumerate((*segment, _ONE)):
        if want is not _ONE:
            stretch += want
        elif stretch:
            literals.append((offset - len(stretch), stretch))
            stretch = ""
    return literals
