"""LoginSessions: logins of people in a browser, as signed tokens that every gateway of the cluster takes.

A token says who it is, by which credential, and until when; nothing is stored for it. Invariants: a token is over at
its end, after a logout at any gateway, and as soon as the user's record or policy changes. Only a holder of the
cluster's secret can make one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.base64url import decode_unpadded, encode_unpadded
from entrepot.domain.callbacks import call_each
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.gateway.security.records import StatementRecord, statement_record
from entrepot.gateway.security.security import Security
from entrepot.gateway.security.shared_secret import derived_key
from entrepot.gateway.work.periodic_work import PeriodicWork

ENDED_PREFIX: Final = "login-end/"
SWEEP_SECONDS: Final = 600.0
"""Interval between deletions of the notes of logouts whose tokens are over anyway."""
ID_BYTES: Final = 16
MAX_ENDED_HERE: Final = 10_000
"""Logouts at this gateway remembered beside the store's notes, which may fail."""
MAX_TOKEN_BYTES: Final = 3500
"""Size of a token that fits into a cookie (RFC 6265, section 6.1)."""


log = structlog.get_logger(__name__)


class _Claims(msgspec.Struct, frozen=True):
    """Claims of a token. `rights`: digest of the user's record and policy."""

    id: str
    name: str
    origin: Origin
    credential: str
    rights: str
    expires_ms: int
    statements: list[StatementRecord] = []


_CLAIMS: Final = msgspec.msgpack.Decoder(_Claims)


@dataclass(frozen=True, slots=True)
class Login:
    """A valid login."""

    id: str
    principal: Principal
    expires_at_ms: int


class LoginSessions:
    """The logins of one gateway's browsers."""

    def __init__(
        self,
        security: Security,
        key_values: KeyValues,
        clock: Clock,
        seconds: float,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        """`seconds`: lifetime of a login."""
        self._security, self._clock = security, clock
        self._seconds, self._random_bytes = seconds, random_bytes
        self._key = b""
        self._ended: WatchedTable[int] = WatchedTable(key_values, ENDED_PREFIX, _decoded, _encoded)
        self._ended.on_change.append(self._told)
        self._ended_here: dict[str, int] = {}
        self.on_end: list[Callable[[], None]] = []
        """Callbacks for a logout at any gateway: what is remembered of tokens may not hold."""
        self.sweeping = PeriodicWork("ended logins", SWEEP_SECONDS, self._sweep)

    async def start(self, secret: str, wait_seconds: float) -> None:
        """Take the cluster's secret, and follow logouts."""
        self._key = derived_key(secret, "logins")
        await self._ended.start(wait_seconds)
        self.sweeping.start()

    async def close(self) -> None:
        await self.sweeping.close()
        self._ended.close()

    def open(self, principal: Principal) -> tuple[str, int]:
        """Return a token for an authenticated principal, and its end in epoch milliseconds. Raises BAD_REQUEST where
        the principal's own statements do not fit into a cookie."""
        expires_ms = self._clock.now_ms() + int(self._seconds * 1000)
        if principal.expires_at_ms is not None:
            expires_ms = min(expires_ms, principal.expires_at_ms)
        claims = _Claims(
            self._random_bytes(ID_BYTES).hex(),
            principal.name,
            principal.origin,
            principal.credential,
            self._rights(principal),
            expires_ms,
            [statement_record(each) for each in principal.statements],
        )
        content = msgspec.msgpack.encode(claims)
        token = f"{encode_unpadded(content)}.{encode_unpadded(self._mac(content))}"
        if len(token) > MAX_TOKEN_BYTES:
            raise EntrepotError(Code.BAD_REQUEST, "the token has too many statements for a login in a browser")
        return token, expires_ms

    def login_of(self, token: str, source: str) -> Login:
        """Return the login of a token. Raises UNAUTHORIZED where it is none, or is over."""
        claims = self._claims(token)
        if claims is None:
            raise EntrepotError(Code.UNAUTHORIZED, "the login is not valid: log in again")
        is_ended = claims.id in self._ended_here or self._ended.get(claims.id) is not None
        if is_ended or self._clock.now_ms() >= claims.expires_ms:
            raise EntrepotError(Code.UNAUTHORIZED, "the login is over: log in again")
        principal = Principal(
            claims.name,
            claims.origin,
            source,
            credential=claims.credential,
            statements=tuple(each.statement() for each in claims.statements),
            expires_at_ms=claims.expires_ms,
        )
        if not hmac.compare_digest(claims.rights, self._rights(principal)):
            raise EntrepotError(Code.UNAUTHORIZED, "the password or the rights have changed: log in again")
        if (reason := self._security.lost(principal)) is not None:
            raise EntrepotError(Code.UNAUTHORIZED, f"{reason}: log in again")
        return Login(claims.id, principal, claims.expires_ms)

    async def end(self, token: str) -> None:
        """End a login at every gateway. A token that is not valid has nothing to end. Raises what the store raises:
        then it is over at this gateway alone."""
        claims = self._claims(token)
        if claims is None or self._clock.now_ms() >= claims.expires_ms:
            return
        while len(self._ended_here) >= MAX_ENDED_HERE:
            del self._ended_here[next(iter(self._ended_here))]
        self._ended_here[claims.id] = claims.expires_ms
        self._tell_end()
        await self._ended.write([self._ended.change(claims.id, claims.expires_ms)])

    # -- inside --------------------------------------------------------------------------------------------------

    def _claims(self, token: str) -> _Claims | None:
        content, _, mac = token.partition(".")
        if len(token) > MAX_TOKEN_BYTES or not self._key:
            return None
        try:
            raw = decode_unpadded(content)
            if not hmac.compare_digest(decode_unpadded(mac), self._mac(raw)):
                return None
            return _CLAIMS.decode(raw)
        except (ValueError, msgspec.MsgspecError):
            return None

    def _mac(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")

    def _rights(self, principal: Principal) -> str:
        return hashlib.sha256(self._security.rights_of(principal.name)).hexdigest()[:32]

    def _told(self, name: str, before: int | None, now: int | None) -> None:
        self._tell_end()

    def _tell_end(self) -> None:
        for fault in call_each(self.on_end):
            log.error("a watcher of ended logins failed; the others are told", exc_info=fault)

    async def _sweep(self) -> None:
        now_ms = self._clock.now_ms()
        for name in [name for name, expires_ms in self._ended.items() if expires_ms < now_ms]:
            await if_unchanged(self._ended.write([self._ended.change(name, None, self._ended.version(name))]))


def _decoded(value: bytes) -> int:
    return int(value)


def _encoded(expires_ms: int) -> bytes:
    return b"%d" % expires_ms
