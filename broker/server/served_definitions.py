"""ServedDefinitions: changes of topics, groups and namespaces by gateways, each with its revision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from entrepot.broker.server.definition_log import DefinitionLog
from entrepot.broker.server.placement import Placement
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.ports import Topology
from entrepot.domain.topic import Topic


class ServedDefinitions:
    """Implements `protocols.wire.served.RevisedDefinitions`.  `on_deleted`: called when a deletion is kept."""

    def __init__(
        self, topology: Topology, deletions: DefinitionLog, placement: Placement, on_deleted: Callable[[], None]
    ) -> None:
        self._topology, self._deletions, self._placement = topology, deletions, placement
        self._on_deleted = on_deleted

    async def put_topics(self, topics: Sequence[Topic]) -> list[EntrepotError | None]:
        """Put topics. Those deleted since are ignored; one deleted before is first removed, with its messages."""
        found: list[EntrepotError | None] = [await self._placement.refusal_to_leave(topic) for topic in topics]
        places = [
            place
            for place, topic in enumerate(topics)
            if found[place] is None and not self._deletions.is_deleted("topic", topic.name, topic.revision)
        ]
        for place in places:
            name = topics[place].name
            known = self._topology.topic(name)
            if known is not None and self._deletions.is_deleted("topic", name, known.revision):
                with suppress(EntrepotError):  # the deletion itself was quicker
                    await self._topology.delete_topic(name)
        outcomes = await self._topology.put_topics([topics[place] for place in places])
        for place, outcome in zip(places, outcomes, strict=True):
            found[place] = outcome
        return found

    async def delete_topic(self, name: str, revision: int) -> None:
        await self._note_deleted("topic", name, revision)
        if not _is_later(self._topology.topic(name), revision):  # it may have been made anew during the write
            await self._topology.delete_topic(name)

    async def put_group(self, group: ConsumerGroup) -> None:
        if not self._deletions.is_deleted("group", group.name, group.revision):
            await self._topology.put_group(group)

    async def delete_group(self, name: str, revision: int) -> None:
        await self._note_deleted("group", name, revision)
        if not _is_later(self._topology.group(name), revision):
            await self._topology.delete_group(name)

    async def put_namespace(self, name: str, revision: int) -> None:
        if not self._deletions.is_deleted("namespace", name, revision):
            await self._topology.put_namespace(name)
            await self._deletions.note_namespace(name, revision)

    async def delete_namespace(self, name: str, revision: int) -> None:
        is_later = 0 < revision < self._deletions.namespaces.get(name, 0)
        if is_later or name not in self._topology.namespaces():
            await self._note_deleted("namespace", name, revision)
        if not is_later:
            await self._topology.delete_namespace(name)
            await self._note_deleted("namespace", name, revision)

    async def _note_deleted(self, kind: str, name: str, revision: int) -> None:
        """Store and report a deletion, also of a definition that is missing here or newer: otherwise comparing clients
        would tell this broker again and again."""
        await self._deletions.note_deleted(kind, name, revision)
        self._on_deleted()


def _is_later(definition: Topic | ConsumerGroup | None, revision: int) -> bool:
    """True if a definition is newer than a deletion of this revision."""
    return definition is not None and definition.revision > revision > 0
