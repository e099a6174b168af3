"""Passwords: hashing and checking them, in a few threads, and each right one only once in a while.

Invariants: at most `max_waiting_logins` checks run or wait, more are refused. Equal questions at one time are checked
once. An unknown name costs as much as a known one. Only a keyed hash of a right password is remembered, with a key that
lives as long as this process.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from scramp import ScramException, ScramMechanism  # type: ignore[import-untyped]

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.rabbitmq_hashes import is_rabbitmqs
from entrepot.gateway.security.rabbitmq_hashes import is_right as is_right_by_rabbitmq
from entrepot.gateway.security.records import ScramKeys, UserRecord
from entrepot.gateway.settings.security import SecuritySettings
from entrepot.gateway.settings.table import KIB

MAX_PASSWORD_BYTES: Final = 1024
SCRAM_MECHANISM: Final = "SCRAM-SHA-256"

_T = TypeVar("_T")


class PasswordChecker:
    """The checks of users' passwords; `checks` counts the argon2 runs."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._hasher = PasswordHasher(
            time_cost=settings.argon2_iterations,
            memory_cost=settings.argon2_memory_bytes // KIB,
            parallelism=settings.argon2_parallelism,
        )
        self._scram_iterations = settings.scram_iterations
        self._threads = ThreadPoolExecutor(settings.password_threads, thread_name_prefix="password")
        self._max_waiting = settings.max_waiting_logins
        self._key = secrets.token_bytes(32)
        self._under_way: dict[bytes, asyncio.Future[bool]] = {}
        self._nobodys_hash: str | None = None
        self.checks = 0

    async def prepare(self) -> None:
        """Make the hash that unknown names are checked against."""
        self._nobodys_hash = await self._run(self._hasher.hash, secrets.token_hex(16))

    def digest(self, *parts: bytes) -> bytes:
        """A keyed hash of a secret, to remember it by."""
        mac = hmac.new(self._key, digestmod=hashlib.sha256)
        for part in parts:
            mac.update(len(part).to_bytes(4, "big") + part)
        return mac.digest()

    async def is_right(self, user: UserRecord | None, password: bytes) -> bool:
        """True if it is the user's password; False, after the same time, for no user or a user without one. Raises
        TOO_MANY_REQUESTS where too many checks wait."""
        known = user.password_hash if user is not None else None
        hashed = known if known is not None else self._nobodys_hash
        if hashed is None:
            raise EntrepotError(Code.UNAVAILABLE, "passwords cannot be checked yet")
        if len(password) > MAX_PASSWORD_BYTES:
            password = b"\0"  # no password is that long; the time does not tell which names are known
        question = self.digest(hashed.encode(), password)
        under_way = self._under_way.get(question)
        if under_way is None:
            if len(self._under_way) >= self._max_waiting:
                raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many logins are waiting: try again")
            self.checks += 1
            under_way = asyncio.ensure_future(self._run(self._verify, hashed, password))
            self._under_way[question] = under_way
            under_way.add_done_callback(lambda _: self._under_way.pop(question, None))
        # one caller that gives up must not end the check for the others
        return await asyncio.shield(under_way) and known is not None

    async def secrets_of(self, password: str) -> tuple[str, ScramKeys | None]:
        """Return the hash and SCRAM keys of a password; without keys if SASLprep refuses it. Raises BAD_REQUEST."""
        raw = password.encode("utf-8", "surrogatepass")
        if not 1 <= len(raw) <= MAX_PASSWORD_BYTES or "\0" in password:
            raise EntrepotError(Code.BAD_REQUEST, f"a password has 1 to {MAX_PASSWORD_BYTES} bytes, and no NUL")
        return await self._run(self._hasher.hash, raw), await self._run(self._scram_keys, password)

    def close(self) -> None:
        """Begin no more checks."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _verify(self, hashed: str, password: bytes) -> bool:
        if is_rabbitmqs(hashed):
            is_right = is_right_by_rabbitmq(hashed, password)
            self._verify(self._nobodys_hash or "", password)  # it costs as much as for other names
            return is_right
        try:
            return self._hasher.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return False

    def _scram_keys(self, password: str) -> ScramKeys | None:
        mechanism = ScramMechanism(SCRAM_MECHANISM)
        try:
            made = mechanism.make_auth_info(password, iteration_count=self._scram_iterations)
        except ScramException:
            return None
        salt, stored_key, server_key, iterations = made
        return ScramKeys(salt, iterations, stored_key, server_key)

    async def _run(self, function: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
