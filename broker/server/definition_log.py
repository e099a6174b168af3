"""DefinitionLog: topics, groups and namespaces deleted by gateways, with the revisions of their deletion.

A broker that was away during a deletion still has the definition. One that was there must be able to tell that it is
gone for good. So deletions are kept, as key-values of this broker under `%definitions/`, which clients do not see. A
definition with a revision not above that of its deletion is ignored. The latest are kept (`domain.deletions`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from entrepot.broker.metadata.own_keys import OWN
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.deletions import Deletions
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.domain.ports.key_value_pages import key_value_pages
from entrepot.domain.topic import Topic

DELETED: Final = f"{OWN}deleted/"
NAMESPACES: Final = f"{OWN}namespace/"
_Definition = TypeVar("_Definition", Topic, ConsumerGroup)


class DefinitionLog:
    """The deletions. `namespaces`: revision by name."""

    def __init__(self, key_values: KeyValues) -> None:
        self._key_values = key_values
        self.deleted = Deletions()
        self.namespaces: dict[str, int] = {}
        self._watchers: list[Callable[[str], None]] = []

    def watch(self, on_deleted: Callable[[str], None]) -> Callable[[], None]:
        """Tell the names of later deletions; return what stops that."""
        self._watchers.append(on_deleted)
        return lambda: self._watchers.remove(on_deleted)

    async def load(self) -> None:
        """Read the stored deletions, and remove those beyond their limit."""
        async for page in key_value_pages(self._key_values, DELETED):
            if forgotten := self.deleted.note(_revisions(page, DELETED))[1]:
                await self._key_values.write(_forgetting(forgotten))
        async for page in key_value_pages(self._key_values, NAMESPACES):
            self.namespaces.update(_revisions(page, NAMESPACES))

    def is_deleted(self, kind: str, name: str, revision: int) -> bool:
        """True if a definition of this revision was deleted since; never for one without a revision."""
        return 0 < revision <= self.deleted.get(f"{kind}/{name}", 0)

    async def note_deleted(self, kind: str, name: str, revision: int) -> None:
        """Store a deletion. Revision 0 is that of a store by itself, for which nobody will ask."""
        news, forgotten = self.deleted.note({f"{kind}/{name}": revision})
        for what in news:
            for on_deleted in tuple(self._watchers):
                on_deleted(what)
            change = KeyValueChange(DELETED + what, str(revision).encode())
            await self._key_values.write([change, *_forgetting(forgotten)])

    async def note_namespace(self, name: str, revision: int) -> None:
        """Store the revision at which a namespace was made."""
        if revision > self.namespaces.get(name, 0):
            self.namespaces[name] = revision
            await self._key_values.write([KeyValueChange(NAMESPACES + name, str(revision).encode())])


def _revisions(page: Sequence[KeyValue], prefix: str) -> dict[str, int]:
    return {found.key.removeprefix(prefix): int(found.value) for found in page}


def _forgetting(forgotten: Sequence[str]) -> list[KeyValueChange]:
    return [KeyValueChange(DELETED + what, None) for what in forgotten]
