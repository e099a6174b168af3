"""Definitions beside the cluster, as facts: every gateway has them, and they outlive it.

A broker keeps of a group its order and attempts; its filter, its invisible time and the rest are here.  RocketMQ has
namespaces in names alone, so one that is empty is here, too.  Without a keeper of facts the rest of a group is known in
this process, and a namespace is there once something is in it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec
import structlog

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import MAX_SCAN, KeyValue, KeyValueChange
from entrepot.domain.ports.facts import Facts

GROUPS: Final = "rocketmq/groups/"
NAMESPACES: Final = "rocketmq/namespaces/"
log = structlog.get_logger(__name__)


class KeptDefinitions:
    """Groups and namespaces as facts.  `namespaces`: as they were read or written last."""

    def __init__(self, facts: Facts | None) -> None:
        self._facts = facts
        self.namespaces: set[str] = set()

    @property
    def are_kept(self) -> bool:
        """True with a keeper of facts."""
        return self._facts is not None

    async def groups(self) -> dict[str, ConsumerGroup]:
        """Return the definitions of groups by name.  Raises what the keeper raises."""
        found: dict[str, ConsumerGroup] = {}
        async for kept in self._all(GROUPS):
            name = kept.key[len(GROUPS) :]
            try:
                found[name] = msgspec.json.decode(kept.value, type=ConsumerGroup)
            except (msgspec.DecodeError, EntrepotError) as fault:  # the other groups are read
                log.error("a group's definition cannot be read", seldom="rocketmq", group=name, problem=str(fault))
        return found

    async def look_at_namespaces(self) -> None:
        """Read the namespaces.  Raises what the keeper raises."""
        self.namespaces = {kept.key[len(NAMESPACES) :] async for kept in self._all(NAMESPACES)}

    async def _all(self, prefix: str) -> AsyncIterator[KeyValue]:
        after = ""
        while self._facts is not None and (page := await self._facts.scan(prefix, after=after, limit=MAX_SCAN)):
            for kept in page:
                yield kept
            after = page[-1].key

    async def keep_group(self, group: ConsumerGroup) -> None:
        """Keep the definition of a group.  Raises what the keeper raises."""
        await self._write(GROUPS + group.name, msgspec.json.encode(group))

    async def forget_group(self, name: str) -> None:
        """Forget the definition of a group.  Raises what the keeper raises."""
        await self._write(GROUPS + name, None)

    async def keep_namespace(self, name: str) -> None:
        """Keep a namespace.  Raises what the keeper raises."""
        await self._write(NAMESPACES + name, b"")
        self.namespaces.add(name)

    async def forget_namespace(self, name: str) -> None:
        """Forget a namespace.  Raises what the keeper raises."""
        await self._write(NAMESPACES + name, None)
        self.namespaces.discard(name)

    async def _write(self, key: str, value: bytes | None) -> None:
        if self._facts is not None:
            await self._facts.write([KeyValueChange(key, value)])
