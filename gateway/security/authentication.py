"""Authentication: credentials in, a principal out, or a refusal.

Invariants: the peer's address decides what is local, never the listener's. Where tokens are accepted, a token is judged
as a token only. Right credentials are remembered for a while, as a keyed hash, and only as long as the user's record
has the credential that they were right for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from entrepot.domain.access.evaluator import is_loopback
from entrepot.domain.access.model import ANONYMOUS, Origin, Principal, is_user_name
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.credentials import CertificateIdentity, Credentials
from entrepot.gateway.security.directory import Directory
from entrepot.gateway.security.failed_logins import FailedLogins
from entrepot.gateway.security.passwords import PasswordChecker
from entrepot.gateway.security.token_shape import VerifiedToken, is_token_shaped
from entrepot.gateway.settings.security import SecuritySettings

if TYPE_CHECKING:
    from entrepot.gateway.security.tokens import TokenVerifier

_Fact = TypeVar("_Fact")


class Authenticator:
    """Authentication of the clients of all listeners."""

    def __init__(
        self,
        settings: SecuritySettings,
        directory: Directory,
        passwords: PasswordChecker,
        tokens: TokenVerifier | None,
        clock: Clock,
        failed: FailedLogins,
    ) -> None:
        self._settings, self._failed = settings, failed
        self._directory = directory
        self._passwords = passwords
        self._tokens = tokens
        self._clock = clock
        self._right_passwords: dict[bytes, tuple[int, str]] = {}
        self._right_tokens: dict[bytes, tuple[int, VerifiedToken]] = {}

    async def recognise(self, credentials: Credentials) -> Principal:
        """Return the principal. Raises UNAUTHORIZED, FORBIDDEN (a disabled user), UNAVAILABLE, TOO_MANY_REQUESTS."""
        self._directory.check_current()
        secret = credentials.password
        if secret is None:
            name = self._certified_name(credentials.certificate)
            if name is not None:
                return self._by_certificate(credentials, name)
        elif self._tokens is not None and (credentials.bearer or is_token_shaped(secret)):
            return await self._by_token(credentials, secret, self._tokens)
        if self.takes_anonymous(credentials.source) and not (
            self._directory.has_users and _shows_something(credentials)
        ):
            return anonymous(credentials.source, credentials.client_id)
        if not self._directory.has_users:
            raise EntrepotError(Code.UNAUTHORIZED, "no user is defined: only clients of this machine are let in")
        if credentials.bearer or credentials.username is None or secret is None:
            raise EntrepotError(Code.UNAUTHORIZED, "credentials are needed: a user name with a password, or a token")
        return await self._by_password(credentials, credentials.username, secret)

    def takes_anonymous(self, source: str) -> bool:
        """True if clients from this address may come in without credentials."""
        if self._settings.anonymous == "always":
            return True
        return self._settings.anonymous == "loopback" and not self._directory.has_users and is_loopback(source)

    def forget(self) -> None:
        """Forget all remembered credentials."""
        self._right_passwords.clear()
        self._right_tokens.clear()

    # -- the ways in -------------------------------------------------------------------------------------------------

    async def _by_password(self, credentials: Credentials, name: str, password: bytes) -> Principal:
        self._failed.check(name, credentials.source)
        digest = self._passwords.digest(name.encode("utf-8", "surrogatepass"), password)
        user = self._directory.user(name)
        remembered = self._right_passwords.get(digest)
        now_ms = self._clock.now_ms()
        if remembered is None or remembered[0] <= now_ms or user is None or remembered[1] != user.credential:
            with self._failed.attempt(name, credentials.source, digest):
                is_right = await self._passwords.is_right(user, password)
            before, user = user, self._directory.user(name)
            if not is_right or user is None or before is None or user.credential != before.credential:
                self._failed.note(name, credentials.source)
                raise EntrepotError(Code.UNAUTHORIZED, "the user name or the password is wrong")
            self._remember(self._right_passwords, digest, (self._clock.now_ms() + self._cache_ms, user.credential))
        if not user.is_enabled:
            raise EntrepotError(Code.FORBIDDEN, "the user is disabled")
        return Principal(name, Origin.PASSWORD, credentials.source, credentials.client_id, user.credential)

    async def _by_token(self, credentials: Credentials, token: bytes, verifier: TokenVerifier) -> Principal:
        digest = self._passwords.digest(b"", token)
        remembered = self._right_tokens.get(digest)
        now_ms = self._clock.now_ms()
        if remembered is not None and now_ms < min(remembered[0], remembered[1].expires_at_ms):
            verified = remembered[1]
        else:
            verified = await verifier.verify(token)
            self._remember(self._right_tokens, digest, (self._clock.now_ms() + self._cache_ms, verified))
        if credentials.username and not credentials.bearer and credentials.username != verified.name:
            raise EntrepotError(Code.UNAUTHORIZED, "the token is another user's")
        self._check_entry(verified.name, is_needed=False)
        return Principal(
            verified.name,
            Origin.TOKEN,
            credentials.source,
            credentials.client_id,
            statements=verified.statements,
            expires_at_ms=verified.expires_at_ms,
        )

    def _by_certificate(self, credentials: Credentials, name: str) -> Principal:
        if credentials.username not in (None, "", name):
            raise EntrepotError(Code.UNAUTHORIZED, "the certificate is another user's")
        self._check_entry(name, is_needed=self._settings.certificate_needs_user)
        return Principal(name, Origin.CERTIFICATE, credentials.source, credentials.client_id)

    def _certified_name(self, certificate: CertificateIdentity | None) -> str | None:
        """The name in a certificate; None without one, or where the settings do not accept names from it."""
        wanted = self._settings.certificate_identity
        if certificate is None or wanted == "none":
            return None
        names: tuple[str, ...]
        if wanted == "cn":
            names = (certificate.common_name,) if certificate.common_name is not None else ()
        else:
            names = certificate.san_uris if wanted == "san_uri" else certificate.san_dns
        if len(names) != 1 or not is_user_name(names[0]):
            raise EntrepotError(Code.UNAUTHORIZED, "the certificate does not name exactly one user")
        return names[0]

    def _check_entry(self, name: str, *, is_needed: bool) -> None:
        """Check the user's entry here, although another authority vouches for the name."""
        if not self._directory.has_user(name):
            if is_needed:
                raise EntrepotError(Code.UNAUTHORIZED, "there is no such user")
            return
        user = self._directory.user(name)
        if user is None or not user.is_enabled:
            raise EntrepotError(Code.FORBIDDEN, "the user is disabled")

    @property
    def _cache_ms(self) -> int:
        return int(self._settings.cache_seconds * 1000)

    def _remember(self, right: dict[bytes, _Fact], digest: bytes, fact: _Fact) -> None:
        """Remember a fact in place of the oldest."""
        right.pop(digest, None)
        while len(right) >= self._settings.max_cached_logins:
            del right[next(iter(right))]
        right[digest] = fact


def anonymous(source: str, client_id: str = "") -> Principal:
    """The principal of a client without credentials."""
    return Principal(ANONYMOUS, Origin.ANONYMOUS, source, client_id)


def _shows_something(credentials: Credentials) -> bool:
    return credentials.username is not None or credentials.password is not None
