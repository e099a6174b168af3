"""SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, for MQTT 5's enhanced authentication and SASL.

Invariants: the exchange is over after two messages of the client, in order, whatever the outcome. An unknown name gets
an answer of the same form as a known one, and fails where a wrong password fails. scramp compares the keys in constant
time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.directory import Directory
from entrepot.gateway.security.failed_logins import FailedLogins
from entrepot.gateway.security.passwords import SCRAM_MECHANISM, PasswordChecker
from entrepot.gateway.security.records import UserRecord

MAX_MESSAGE_BYTES: Final = 4096
_KEY_BYTES: Final = 32


class ScramExchange:
    """One exchange with one client. `iterations`: of unknown names where no user has keys. `refused` hears of each
    refusal."""

    def __init__(
        self,
        directory: Directory,
        passwords: PasswordChecker,
        credentials: Credentials,
        iterations: int,
        refused: Callable[[Credentials, EntrepotError], None],
        failed: FailedLogins,
    ) -> None:
        self._iterations, self._refused, self._failed = iterations, refused, failed
        self._directory = directory
        self._passwords = passwords
        self._credentials = credentials
        self._user: UserRecord | None = None
        self._name = ""
        self._server = ScramMechanism(SCRAM_MECHANISM).make_server(self._keys_of)
        self._steps = 0

    def step(self, data: bytes) -> tuple[bytes, Principal | None]:
        """Return the answer to a message of the client, with the principal in the end. Raises UNAUTHORIZED, FORBIDDEN
        (the user is disabled), UNAVAILABLE, TOO_MANY_REQUESTS; then the exchange is over."""
        try:
            return self._step(data)
        except EntrepotError as refusal:
            self._steps = 2
            self._refused(replace(self._credentials, username=self._name), refusal)
            raise

    def _step(self, data: bytes) -> tuple[bytes, Principal | None]:
        self._directory.check_current()
        self._steps += 1
        if self._steps > 2 or len(data) > MAX_MESSAGE_BYTES:
            raise _refusal()
        try:
            text = data.decode()
            if self._steps == 1:
                self._server.set_client_first(text)
                return self._server.get_server_first().encode(), None
            self._failed.check(self._name, self._credentials.source)
            self._server.set_client_final(text)
            answer = self._server.get_server_final().encode()
        except (ScramException, UnicodeDecodeError, ValueError, KeyError, IndexError):
            if self._name:
                self._failed.note(self._name, self._credentials.source)
            raise _refusal() from None
        return answer, self._principal()

    def _principal(self) -> Principal:
        now = self._directory.user(self._name)
        if self._user is None or now is None or now.credential != self._user.credential:
            raise _refusal()
        if not now.is_enabled:
            raise EntrepotError(Code.FORBIDDEN, "the user is disabled")
        source, client_id = self._credentials.source, self._credentials.client_id
        return Principal(self._name, Origin.SCRAM, source, client_id, now.credential)

    def _keys_of(self, name: str) -> tuple[bytes, bytes, bytes, int]:
        """Salt, stored key, server key and iterations; for an unknown name, ones that no password matches."""
        self._name = name
        user = self._directory.user(name)
        if user is not None and user.scram is not None:
            self._user, keys = user, user.scram
            return keys.salt, keys.stored_key, keys.server_key, keys.iterations
        salt = self._passwords.digest(b"scram", name.encode("utf-8", "surrogatepass"))
        iterations = self._directory.scram_iterations(int.from_bytes(salt[:8]), self._iterations)
        return salt, secrets.token_bytes(_KEY_BYTES), secrets.token_bytes(_KEY_BYTES), iterations


def _refusal() -> EntrepotError:
    return EntrepotError(Code.UNAUTHORIZED, "the exchange of credentials failed")
