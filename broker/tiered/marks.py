"""TableMarks: the tables as this store knows them, kept apart from the object store that has them.

An object store may be away and look empty: a folder that is not mounted, a changed `tier.url`, a bucket put back to an
earlier state. A broker that asks only the store would begin a new table there, and lose what it gives up meanwhile. So
the log has a mark of each table (id, version, progress, epoch), and the object store a mark of this store. A table that
does not fit is neither written nor read, and nothing leaves the disk that the mark does not have. `forget` accepts
another state.

The marks are key-values of the broker (`own_keys`), so a group's next master knows them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import structlog

from entrepot.broker.metadata.own_keys import OWN
from entrepot.broker.tiered.fence import EPOCH
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, TierError, put_or_find
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.domain.ports.key_value_pages import key_value_pages
from entrepot.domain.tiering import Hole

if TYPE_CHECKING:
    from entrepot.broker.tiered.snapshot import Snapshot

K = TypeVar("K")
V = TypeVar("V")
_HOLES: Final = dict[int, Hole]
TABLES: Final = f"{OWN}tier/table/"
GIVEN_UP: Final = f"{OWN}tier/given-up/"
STORE: Final = f"{OWN}tier/store"
STORES: Final = "_stores/"
"""Folder of the object store with an object for each store that uses it."""
log = structlog.get_logger(__name__)
_ACCEPT: Final = "Put the object store back as it was, or accept the change (entrepot tier accept"


class TableMark(msgspec.Struct, frozen=True, array_like=True):
    """A table at its last known version: Delta's id of it, offsets by world's queue, and epochs by writing store."""

    table_id: str
    version: int
    ends: dict[int, int]
    epochs: dict[str, int] = {}

    @classmethod
    def of(cls, snapshot: Snapshot) -> TableMark:
        return cls(snapshot.metadata.id, snapshot.version, snapshot.ends, snapshot.numbers(EPOCH, str))

    def check(self, root: str, url: str, snapshot: Snapshot | None) -> None:
        """Raise PRECONDITION_FAILED unless a snapshot has all that this mark has."""
        if snapshot is None:
            text = f"there is no table {root} in {url}, and this store knows it at {self._words()}"
            raise TierError(f"{text}: is the folder mounted? {_ACCEPT} TOPIC)", Code.PRECONDITION_FAILED)
        found = TableMark.of(snapshot)
        is_behind = found.version < self.version or _has_less(found.ends, self.ends)
        if found.table_id != self.table_id or is_behind or _has_less(found.epochs, self.epochs):
            text = f"the table {root} in {url} is at {found._words()}, and this store knows it at {self._words()}."
            raise TierError(f"{text} {_ACCEPT} TOPIC)", Code.PRECONDITION_FAILED)

    def _words(self) -> str:
        ends = ", ".join(f"{queue}: {end}" for queue, end in sorted(self.ends.items())) or "none"
        return f"version {self.version} (table {self.table_id}, ends of queues {ends})"


class TableMarks:
    """The marks. `key_values`: those of the broker."""

    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values
        self._marks: dict[str, TableMark] = {}
        self._given_up: dict[str, dict[int, Hole]] = {}
        self.token = ""
        """Mark of this store in the object store; empty before the first use of one."""

    async def load(self) -> None:
        """Read the marks."""
        async for page in key_value_pages(self._key_values, TABLES):
            self._marks.update((found.key.removeprefix(TABLES), _decoded(found, TableMark)) for found in page)
        async for page in key_value_pages(self._key_values, GIVEN_UP):
            for found in page:
                try:
                    self._given_up[found.key.removeprefix(GIVEN_UP)] = _decoded(found, _HOLES)
                except EntrepotError as error:  # a hole less is told; uploads go on
                    log.error("could not read the messages given up of a table", table=found.key, problem=error.message)
        [known] = await self._key_values.get([STORE])
        self.token = "" if known is None else known.value.decode()

    @property
    def count(self) -> int:
        return max(len(self._marks), len(self._given_up))

    def of(self, root: str) -> TableMark | None:
        return self._marks.get(root)

    def end(self, root: str, queue_id: int) -> int:
        """Return the offset up to which a mark has a world's queue."""
        mark = self._marks.get(root)
        return 0 if mark is None else mark.ends.get(queue_id, 0)

    def given_up(self, root: str, queue_id: int) -> Hole | None:
        """Return the offsets of a broker's queue that the disk was let go of without an upload, if any."""
        return self._given_up.get(root, {}).get(queue_id)

    async def note_given_up(self, root: str, holes: Mapping[int, Hole]) -> None:
        """Note offsets of queues that the disk is let go of without an upload, durably on return."""
        if not holes:
            return
        known = {**self._given_up.get(root, {}), **holes}
        await self._key_values.write([KeyValueChange(GIVEN_UP + root, msgspec.msgpack.encode(known))])
        self._given_up[root] = known

    async def note(self, root: str, mark: TableMark) -> None:
        """Note a table, durably on return."""
        if mark != self._marks.get(root):
            await self._key_values.write([KeyValueChange(TABLES + root, msgspec.msgpack.encode(mark))])
            self._marks[root] = mark

    async def note_store(self, token: str) -> None:
        """Note the object store's mark, durably on return."""
        if token != self.token:
            await self._key_values.write([KeyValueChange(STORE, token.encode())])
            self.token = token

    async def keep(self, roots: Collection[str]) -> None:
        """Forget the tables of topics that are gone."""
        await self._forget([root for root in self._marks if root not in roots])
        for root in [root for root in self._given_up if root not in roots]:
            await self._key_values.write([KeyValueChange(GIVEN_UP + root, None)])
            self._given_up.pop(root, None)

    async def forget(self, root: str | None) -> None:
        """Forget a table, or all of them with the object store: what is there now is accepted."""
        if root is not None:
            await self._forget([root])
            return
        await self._key_values.write([KeyValueChange(STORE, None)])
        self.token = ""
        async for page in key_value_pages(self._key_values, TABLES):
            await self._key_values.write([KeyValueChange(found.key, None) for found in page])
        self._marks.clear()

    async def _forget(self, roots: Collection[str]) -> None:
        known = [root for root in roots if root in self._marks]
        for start in range(0, len(known), MAX_SCAN):
            some = known[start : start + MAX_SCAN]
            await self._key_values.write([KeyValueChange(TABLES + root, None) for root in some])
            for root in some:
                self._marks.pop(root, None)


def _has_less(found: Mapping[K, int], known: Mapping[K, int]) -> bool:
    return any(found.get(key, 0) < value for key, value in known.items())


def _decoded(found: KeyValue, kind: type[V]) -> V:
    """Return a mark. Raises INTERNAL_ERROR for another form of it."""
    try:
        return msgspec.msgpack.decode(found.value, type=kind)
    except msgspec.DecodeError as error:
        text = f"the mark {found.key} of a table cannot be read ({error}): entrepot tier accept --all"
        raise EntrepotError(Code.INTERNAL_ERROR, text) from None


def agree(objects: ObjectStore, store: str, token: str, new: str) -> str:
    """Return the mark that this store has in the object store: the known one, that of an earlier run, or a `new` one.
    Raises PRECONDITION_FAILED where the known one is not there."""
    if token:
        check_store(objects, store, token)
        return token
    found = put_or_find(objects, STORES + store, new.encode())
    return new if found is None else found.decode("ascii", "replace")


def check_store(objects: ObjectStore, store: str, token: str) -> None:
    """Raise PRECONDITION_FAILED unless the object store has this store's mark."""
    try:
        found = objects.get(STORES + store).decode("ascii", "replace")
    except MissingObjectError:
        found = ""
    if found != token:
        what = f"has another mark ({found})" if found else "has no mark of this store: is the folder mounted?"
        text = f"{objects.url} is not the object store that this store has used: it {what}"
        raise TierError(f"{text} {_ACCEPT} --all)", Code.PRECONDITION_FAILED)
