"""Key-values in the real etcd, at one member and at three."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, Final

import pytest

from entrepot.store_client.etcd import EtcdSettings, open_etcd
from tests.support.etcd.cluster import EtcdCluster, etcd_alone, etcd_of_three  # noqa: F401 - fixtures

_turns: Final = itertools.count(1)


def settings_of(cluster: EtcdCluster, **others: Any) -> EtcdSettings:
    """Settings with a root that no other test has."""
    return EtcdSettings(**{"addresses": cluster.addresses, "root": f"entrepot/t{next(_turns)}/"} | others)


@pytest.fixture(params=["etcd_alone", "etcd_of_three"])
def cluster(request: pytest.FixtureRequest) -> EtcdCluster:
    found: EtcdCluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def store(cluster: EtcdCluster) -> AsyncIterator[SimpleNamespace]:
    """A store of key-values alone, as tests of the contract ask for it."""
    key_values = await open_etcd(settings_of(cluster, probe_seconds=0.3))
    yield SimpleNamespace(key_values=key_values)
    await key_values.close()
