"""Confirms: the confirmed publishes of a channel, so that one frame can confirm many.  `multiple` covers every publish
up to a tag, so all of them must be settled.  Therefore this keeps the tag up to which all are, and the tags beyond it
that were confirmed out of order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import Struct
from typing import Final

_FRAME: Final = Struct(">BHIIQBB")
_ACK: Final = 60 << 16 | 80
_NACK: Final = 60 << 16 | 120


class Confirms:
    """The confirms of one channel.  It keeps at most one tag for each publish that is unconfirmed, or was confirmed
    before an earlier one."""

    __slots__ = ("_beyond", "_up_to")

    def __init__(self) -> None:
        self._up_to = 0
        self._beyond: set[int] = set()

    def frames(self, channel: int, tags: Sequence[int], *, is_nack: bool = False) -> bytes:
        """Return the frames that confirm these publishes, or nack them; tags in any order, each only once."""
        if not tags:
            return b""
        beyond = self._beyond
        before = self._up_to
        if not beyond and len(tags) == tags[-1] - before and _are_consecutive(tags):
            self._up_to = tags[-1]
            return _frame(channel, tags[-1], len(tags) > 1, is_nack)
        beyond.update(tags)
        up_to = before
        while up_to + 1 in beyond:
            up_to += 1
            beyond.discard(up_to)
        self._up_to = up_to
        within = [tag for tag in tags if before < tag <= up_to]
        out = [_frame(channel, max(within), len(within) > 1, is_nack)] if within else []
        out += [_frame(channel, tag, False, is_nack) for tag in tags if tag > up_to]
        return b"".join(out)


def _are_consecutive(tags: Sequence[int]) -> bool:
    if isinstance(tags, range):
        return tags.step == 1
    return all(tag == first + 1 for first, tag in pairwise(tags))


def _frame(channel: int, tag: int, multiple: bool, is_nack: bool) -> bytes:
    return _FRAME.pack(1, channel, 13, _NACK if is_nack else _ACK, tag, multiple, 0xCE)
