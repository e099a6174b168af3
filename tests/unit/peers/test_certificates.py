"""Questions between gateways show the present certificate: one that was renewed needs no restart."""

from __future__ import annotations

import ssl
from pathlib import Path

from entrepot.broker.broker import Broker
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.gateway.peers.peers import Peers
from entrepot.gateway.peers.seal import Seals
from entrepot.store_client.remote.opening import client_tls
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.processes.certificates import TestAuthority
from tests.unit.broker.test_backup import settings


async def test_a_renewed_certificate_is_shown(tmp_path: Path) -> None:
    contexts = [ssl.create_default_context()]
    store = await Broker.open(settings(tmp_path / "data"), ManualClock())
    peers = Peers(member_named(store, ManualClock(), "gw").others)
    try:
        await peers.start(Seals(b"k" * 32, ManualClock(), lambda count: b"n" * count), lambda: contexts[-1], 1.0)
        first = peers._client
        await peers._ping_all()
        assert first is not None and peers._client is first, "nothing has changed"
        contexts.append(ssl.create_default_context())
        await peers._ping_all()
        assert peers._client is not first and not first.is_closed, "its questions go on"
        await peers._ping_all()
        assert first.is_closed
    finally:
        await peers.close()
        await store.close()
    assert peers._client is not None and peers._client.is_closed


def test_the_context_is_another_once_its_files_have_changed(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    certificate = authority.issue("gateway")
    present = client_tls(ClusterTrust(certificate=certificate, key=certificate, ca=authority.file))
    first = present()
    assert first is not None and present() is first
    authority.issue("gateway", "localhost", "127.0.0.1", "another.example")
    assert present() is not first
    assert client_tls(ClusterTrust())() is None
