"""This gateway among the others of its cluster: its record, the listener for their questions, and the shared secret."""

from __future__ import annotations

from entrepot.gateway.door.parts import Parts
from entrepot.gateway.http.server import HttpListener
from entrepot.gateway.peers.answering import PeerAnswers
from entrepot.gateway.peers.peers import Peers
from entrepot.gateway.peers.place import address_for_peers, bind_for_peers, listener_settings
from entrepot.gateway.peers.seal import Seals
from entrepot.gateway.security.login_sessions import LoginSessions
from entrepot.gateway.security.shared_secret import CLUSTER_SECRET_KEY, derived_key, shared_secret

STOP_SECONDS = 0.1
"""Time for questions of other gateways to end at the stop."""


class PeerListener:
    """Place of this gateway among the others: `peers` asks them, and `logins` are valid at all of them."""

    def __init__(self, parts: Parts) -> None:
        """A gateway alone on its store listens to nobody.  Raises CannotListenError."""
        settings, store, clock = parts.settings, parts.store, parts.clock
        self._settings, self._store, self._clock = settings, store, clock
        self._random_bytes = parts.chance.randbytes
        self._listener: HttpListener | None = None
        key_values, bound = store.key_values, None if parts.member.is_alone else bind_for_peers(settings)
        address = "" if bound is None else address_for_peers(settings, bound)
        of_listener = listener_settings(settings)
        is_tls = of_listener.tls_certificate is not None
        parts.member.others.reachable_at(address, is_tls=is_tls)
        self.peers = Peers(parts.member.others)
        self.logins = LoginSessions(parts.security, key_values, clock, settings.http.login_seconds, self._random_bytes)
        if bound is not None:
            self._listener = HttpListener(PeerAnswers(self.peers), bound, of_listener, parts.early, event_sockets=False)

    async def start(self) -> None:
        """Share the secret, answer, and be known. Raises what the store raises."""
        from entrepot.store_client.remote.opening import client_tls

        wait_seconds = self._settings.cluster.start_seconds
        secret = await shared_secret(self._store.key_values, CLUSTER_SECRET_KEY, wait_seconds=wait_seconds)
        await self.logins.start(secret, wait_seconds)
        if self._listener is not None:
            await self._listener.start()
        seals = Seals(derived_key(secret, "peers"), self._clock, self._random_bytes)
        await self.peers.start(seals, client_tls(self._settings.cluster.trust()), wait_seconds)

    async def close(self) -> None:
        """Ask no more."""
        await self.logins.close()
        await self.peers.close()

    async def stop(self) -> None:
        """Answer no more: this gateway is forgotten by now."""
        if self._listener is not None:
            await self._listener.stop(STOP_SECONDS)
