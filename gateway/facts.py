"""Facts beside a cluster that cannot keep key-values: in a directory of this machine, or shared in etcd."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from entrepot.domain.errors import EntrepotError, StoreFailedError
from entrepot.domain.ports import Store
from entrepot.domain.ports.facts import Facts
from entrepot.gateway.settings.facts import FactsSettings

ROOT: Final = "entrepot/"
DEFAULT_NAME: Final = "default"
"""Name of a cluster without one, in the root of its keys."""
IN_USE: Final = "is in use by"
FOR_ONE: Final = 'facts in a directory are for one gateway; several share etcd (facts.url = "etcd://...")'


class FileFacts:
    """Implements `domain.ports.facts.Facts` with the key-values of a store in this process."""

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

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await self._store.close()


def with_words(failed: StoreFailedError) -> StoreFailedError:
    """Return the failure to open a directory of facts, in words for a second gateway."""
    return StoreFailedError(f"{failed.message}: {FOR_ONE}") if IN_USE in failed.message else failed


async def open_facts_in_etcd(named: FactsSettings, cluster: str) -> Facts:
    """Open the facts of a cluster by its name.  Raises BAD_REQUEST for an etcd that cannot be used, FORBIDDEN,
    UNAVAILABLE."""
    from entrepot.store_client.etcd import EtcdSettings, open_etcd

    return await open_etcd(
        EtcdSettings(
            named.addresses,
            f"{ROOT}{quote(cluster or DEFAULT_NAME, safe='')}/",
            user=named.user,
            password=named.password.get_secret_value(),
            ca=named.ca,
            certificate=named.certificate,
            key=named.key,
        )
    )
