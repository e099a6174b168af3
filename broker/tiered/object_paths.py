"""The paths and parts of objects that a store takes: the same for folders and remote stores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from entrepot.broker.tiered.objects import TierError
from entrepot.domain.errors import Code

MAX_PATH_BYTES: Final = 1024
"""Longest path with the store's prefix, in bytes: that of S3, GCS and Azure."""
MAX_PART_BYTES: Final = 255
"""Longest part of a path, in bytes: that of file systems."""
MAX_OBJECT_BYTES: Final = 512 << 20
"""Largest object stored or read whole, and most bytes that one call reads in parts."""
MAX_RANGES: Final = 4096
"""Most parts of an object that one call reads."""

Span = tuple[int, int]


def checked_path(path: str) -> str:
    """Return an object's path unchanged. Raises TierError where it leads out of the store, or some store refuses it."""
    for part in path.split("/"):
        if (fault := _fault_of_part(part)) is not None:
            raise TierError(f"{path!r} is not an object's path: {fault}", Code.BAD_REQUEST)
    if len(path.encode()) > MAX_PATH_BYTES:
        raise TierError(f"{path[:80]!r}... is not an object's path: longer than {MAX_PATH_BYTES} B", Code.BAD_REQUEST)
    return path


def checked_prefix(prefix: str) -> str:
    """Return a beginning of paths unchanged. Raises TierError where no path can have it."""
    directory, _, rest = prefix.rpartition("/")
    if directory or prefix.startswith("/"):
        checked_path(directory)
    if rest not in ("", ".", ".."):
        checked_path(rest)
    return prefix


def _fault_of_part(part: str) -> str | None:
    if not part:
        return "a part of it is empty"
    if part in (".", ".."):
        return "it would leave its folder"
    if not part.isprintable():
        return "it has control characters, or bytes that are not text"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"a part of it is longer than {MAX_PART_BYTES} B"
    return None


def checked_size(path: str, size: int) -> None:
    """Raise TierError where an object is larger than this process holds at once."""
    if size > MAX_OBJECT_BYTES:
        raise TierError(f"{path} has {size} B: objects of up to {MAX_OBJECT_BYTES} B are stored or read whole")


def checked_ranges(path: str, ranges: Sequence[Span]) -> None:
    """Raise TierError where these are not parts of an object, or more than one call reads."""
    if len(ranges) > MAX_RANGES:
        raise TierError(f"{len(ranges)} parts of {path}: one call reads up to {MAX_RANGES}", Code.BAD_REQUEST)
    for start, end in ranges:
        if not 0 <= start <= end:
            raise TierError(f"{start} to {end} is not part of {path}", Code.BAD_REQUEST)
    checked_size(path, sum(end - start for start, end in ranges))


def ends_before(path: str, start: int, end: int) -> TierError:
    """Return the error for an object shorter than a wanted part."""
    text = f"it is not the object that was stored, whose bytes {start} to {end} were asked for"
    return TierError(f"{path} ends before {end}: {text}", Code.COLD_CORRUPTED)


def spans_of(ranges: Sequence[Span], gap: int) -> Iterator[Span]:
    """Yield spans to read for these parts, in order: parts nearer to each other than `gap` bytes are read as one."""
    wanted = sorted(each for each in ranges if each[0] < each[1])
    if not wanted:
        return
    start, end = wanted[0]
    for next_start, next_end in wanted[1:]:
        if next_start > end + gap:
            yield start, end
            start = next_start
            end = next_end
        else:
            end = max(end, next_end)
    yield start, end
