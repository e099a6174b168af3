"""SubTopicDictionary: the sub-topic names of one topic by hash, which turn a wildcard into a set of hashes."""

from __future__ import annotations

import re
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from entrepot.broker.store.hash_scan import HASH_LIMIT, HashSet
from entrepot.domain.filter_hash import TAG_BITS, sub_topic_hash

MAX_NAMES: Final = 1_000_000
"""Most names remembered of one topic; some 200 bytes each."""
MAX_FILTERS: Final = 256
"""Most wildcard filters of one topic with hashes kept ready (64 KiB and 16 to 40 bytes a matching name each)."""


@dataclass(slots=True)
class _Ready:
    """A filter's matching hashes among the first `seen` names learned."""

    is_match: Callable[[str], object]
    hashes: HashSet
    seen: int = 0


class SubTopicDictionary:
    """One topic's names. Hashes are 48-bit numbers, `filter_hash >> TAG_BITS`; 0 (no sub-topic) is never learned.

    `names` is for the hot path, which calls `learn` only `if names.get(hash) != name` (a test of the hash alone would
    miss the second of two names that share one). Such second names are in `twins`. Once a name was turned away
    (`max_names`), `is_complete` is False and `known_hashes()` has the hashes that a scan may rule out.
    """

    __slots__ = (
        "_doubtful",
        "_known",
        "_learned",
        "_max_filters",
        "_max_names",
        "_new",
        "_ready",
        "is_complete",
        "names",
        "twins",
    )

    def __init__(self, max_names: int = MAX_NAMES, max_filters: int = MAX_FILTERS) -> None:
        self.names: dict[int, str] = {}
        self.twins: dict[int, list[str]] = {}
        self.is_complete = True
        self._max_names = max_names
        self._max_filters = max_filters
        self._learned = array("Q")  # a twin's hash is here once more
        self._new: list[str] = []
        self._doubtful: frozenset[int] = frozenset()
        self._known: HashSet | None = None
        self._ready: OrderedDict[str, _Ready] | None = None  # most topics are never asked for

    def __len__(self) -> int:
        """Number of names remembered, twins included."""
        return len(self._learned)

    def learn(self, hash48: int, name: str) -> bool:
        """Remember a name; True if it is new and there was room. Raises ValueError if the hash does not fit 48 bits: it
        was not shifted down by `TAG_BITS`."""
        if not self._keep(hash48, name):
            return False
        self._new.append(name)
        return True

    def hashes_matching(self, topic_filter: str) -> HashSet:
        """Return the hashes of all remembered names that match an MQTT topic filter (never 0).

        A filter without wildcards gives the hash of its own name, remembered or not. The first question about a
        wildcard costs about 0.3 us a name (see `prepare`), later ones only the names learned since.
        """
        if "+" not in topic_filter and "#" not in topic_filter:
            return HashSet.of_names(topic_filter) if topic_filter else HashSet()
        ready = self._ready_for(topic_filter)
        if ready.seen < len(self._learned):
            self._extend(ready, len(self._learned))
        return ready.hashes

    def prepare(self, topic_filter: str, most: int) -> bool:
        """Match up to `most` further names with a wildcard filter; True if none is left. With many names this spreads
        the first question over several turns."""
        ready = self._ready_for(topic_filter)
        self._extend(ready, most)
        return ready.seen == len(self._learned)

    def known_hashes(self) -> HashSet | None:
        """Return None while all names are remembered; else, for `scan`, the hashes with every name remembered."""
        if self.is_complete:
            return None
        if self._known is None:
            self._known = HashSet(hash48 for hash48 in self.names if hash48 not in self._doubtful)
        return self._known

    def take_new(self) -> list[str]:
        """Return the names learned since the last call, oldest first: the additions of a checkpoint."""
        taken, self._new = self._new, []
        return taken

    def restore(self, names: Iterable[str], *, is_complete: bool = True) -> None:
        """Learn a checkpoint's names, which are not new. `is_complete` is the attribute as it was then."""
        for name in names:
            self._keep(sub_topic_hash(name) >> TAG_BITS, name)
        if not is_complete:
            self.is_complete = False
            self._known = None

    def _keep(self, hash48: int, name: str) -> bool:
        if not 0 <= hash48 < HASH_LIMIT:
            raise ValueError(f"{hash48:#x} is not a 48-bit hash")
        held = self.names.get(hash48)
        if not hash48 or held == name or (held is not None and name in self.twins.get(hash48, ())):
            return False
        if len(self._learned) >= self._max_names:
            self._turn_away(hash48, is_twin=held is not None)
            return False
        if held is None:
            self.names[hash48] = name
        else:
            self.twins.setdefault(hash48, []).append(name)
        self._learned.append(hash48)
        self._known = None
        return True

    def _turn_away(self, hash48: int, *, is_twin: bool) -> None:
        """Refuse a name. A twin's hash is known and its name is not: that hash may no longer be ruled out."""
        self.is_complete = False
        if is_twin and hash48 not in self._doubtful:
            self._doubtful |= {hash48}
            self._known = None

    def _ready_for(self, topic_filter: str) -> _Ready:
        if self._ready is None:
            self._ready = OrderedDict()
        ready = self._ready.get(topic_filter)
        if ready is not None:
            self._ready.move_to_end(topic_filter)
            return ready
        if len(self._ready) >= self._max_filters:
            self._ready.popitem(last=False)
        ready = self._ready[topic_filter] = _Ready(_matcher(topic_filter), HashSet())
        return ready

    def _extend(self, ready: _Ready, most: int) -> None:
        is_match, names, twins = ready.is_match, self.names, self.twins
        new = self._learned[ready.seen : ready.seen + most]
        found = [hash48 for hash48 in new if is_match(names[hash48])]
        if twins:
            found += [hash48 for hash48 in twins.keys() & set(new) if any(is_match(name) for name in twins[hash48])]
        if found:
            ready.hashes = ready.hashes.extended(found)
        ready.seen += len(new)


def _matcher(topic_filter: str) -> Callable[[str], object]:
    """Return `topic_filter.matches` as a regular expression: five times as quick, for a million names. It never
    backtracks: a level is taken whole, or the name does not match."""
    levels = topic_filter.split("/")
    is_open = levels[-1] == "#"
    if is_open:
        levels.pop()
    pattern = "/".join("[^/]*+" if level == "+" else re.escape(level) for level in levels)
    if is_open:
        pattern += "(?:/.*)?" if levels else ".*"
    if topic_filter[0] in "+#":
        pattern = r"(?!\$)" + pattern
    return re.compile(pattern, re.DOTALL).fullmatch
