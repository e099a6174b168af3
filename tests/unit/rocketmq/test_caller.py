"""A client is its user's, whatever it calls itself."""

from __future__ import annotations

from entrepot.domain.access.model import Origin, Principal
from entrepot.gateway.rocketmq.caller import MAX_IDENTITY_LENGTH, Caller


def identity(user: str, client_id: str) -> str:
    return Caller(client_id, Principal(user, Origin.CERTIFICATE, "192.0.2.7"), "192.0.2.7").identity


def test_no_two_clients_have_one_identity() -> None:
    """Names from certificates are URIs with slashes, and clients choose their ids."""
    pairs = [(user, client) for user in ("a", "a/b", "a/b/c", "b") for client in ("c", "b/c", "a", "/c", "d/e" * 90)]
    found = {identity(user, client_id) for user, client_id in pairs}
    assert len(found) == len(pairs)
    assert all(len(each) <= MAX_IDENTITY_LENGTH for each in found)
    assert identity("line", "client@1") == "line/client@1", "records of the version before are found by it"
