"""Facts beside a cluster that cannot keep them: in a directory of this machine, in etcd, or at brokers of ours; and in
several of them, a family of keys in each (`key_values/families.py`).

ADR 85. Invariant: each key has one keeper.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import quote

from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from entrepot.domain.ports import Store
from entrepot.domain.ports.facts import Facts
from entrepot.gateway.key_values.families import FactsOfFamilies
from entrepot.gateway.settings.facts import FactsSettings, Keeper

ROOT: Final = "entrepot/"
DEFAULT_NAME: Final = "default"
"""Name of a cluster without one, in the root of its keys."""
IN_USE: Final = "is in use by"
FOR_ONE: Final = 'facts in a directory are for one gateway; several share etcd (facts.url = "etcd://...")'

OpenDirectory = Callable[[Path], Awaitable[Store]]
OpenBrokers = Callable[[tuple[str, ...]], Awaitable[Store]]


class StoreFacts:
    """Implements `domain.ports.facts.Facts` with the key-values of a store."""

    def __init__(self, store: Store) -> None:
        self._store, self._is_closed = store, False
        kept = store.key_values
        self.get, self.scan, self.write, self.watch = kept.get, kept.scan, kept.write, kept.watch
        self.age_seconds = kept.age_seconds

    @property
    def failure(self) -> EntrepotError | None:
        return self._store.condition.failure

    @property
    def damage(self) -> list[str]:
        return self._store.condition.damage

    def gauges(self) -> dict[str, float]:
        return {}

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._store.close()


async def open_facts(
    named: FactsSettings, cluster: str, open_directory: OpenDirectory, open_brokers: OpenBrokers
) -> Facts | None:
    """Open the keepers that the settings name; None: there are none.  `cluster`: the deployment's name; the functions
    open a store in a directory, and one of name servers.  Raises BAD_REQUEST for an etcd that cannot be used,
    FORBIDDEN, UNAVAILABLE, StoreFailedError."""

    async def opened(keeper: Keeper) -> Facts:
        if keeper.members:
            return await _open_etcd(named, keeper.members, cluster)
        if keeper.name_servers:
            return StoreFacts(await open_brokers(keeper.name_servers))
        assert keeper.data_dir is not None, "a keeper is one of the three"
        try:
            return StoreFacts(await open_directory(keeper.data_dir))
        except StoreFailedError as failed:
            raise _with_words(failed) from failed

    if named.keeper is None:
        return None
    wanted = [named.keeper, *named.keepers.values()]
    places = list(dict.fromkeys(wanted))  # two families may share a keeper
    done = await asyncio.gather(*map(opened, places), return_exceptions=True)
    found = {place: each for place, each in zip(places, done, strict=True) if not isinstance(each, BaseException)}
    failures = [each for each in done if isinstance(each, BaseException)]
    if failures:
        await asyncio.gather(*(each.close() for each in found.values()))
        raise failures[0]
    if not named.keepers:
        return found[named.keeper]
    return FactsOfFamilies(found[named.keeper], {name: found[keeper] for name, keeper in named.keepers.items()})


def _with_words(failed: StoreFailedError) -> StoreFailedError:
    """Return the failure to open a directory of facts, in words for a second gateway."""
    return StoreFailedError(f"{failed.message}: {FOR_ONE}") if IN_USE in failed.message else failed


async def _open_etcd(named: FactsSettings, members: tuple[str, ...], cluster: str) -> Facts:
    if find_spec("grpc") is None:
        raise EntrepotError(Code.BAD_REQUEST, "facts.url names etcd: pip install 'entrepot[etcd]'")
    from entrepot.store_client.etcd import EtcdSettings, open_etcd

    return await open_etcd(
        EtcdSettings(
            members,
            f"{ROOT}{quote(cluster or DEFAULT_NAME, safe='')}/",
            user=named.user,
            password=named.password.get_secret_value(),
            ca=named.ca,
            certificate=named.certificate,
            key=named.key,
        )
    )
