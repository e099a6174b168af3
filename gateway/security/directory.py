"""The users and policies of the store, as this gateway sees them: loaded once, then followed by watch.

Invariants: nothing is answered before all is loaded. A user with an unreadable record cannot come in. A subject with an
unreadable policy may do nothing (nobody may, if it is everybody's). An older write never replaces a newer one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from entrepot.domain.access.evaluator import CompiledStatement, compile_policy
from entrepot.domain.access.model import EVERYBODY
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.gateway.security.records import (
    POLICY_PREFIX,
    USER_PREFIX,
    PolicyRecord,
    UserRecord,
    decode_policy,
    decode_user,
)

_log = structlog.get_logger(__name__)


class _Broken:
    """A record that cannot be read."""


_BROKEN: Final = _Broken()


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """A policy, with its compiled form."""

    record: PolicyRecord
    statements: tuple[CompiledStatement, ...]


@dataclass(frozen=True, slots=True)
class DirectoryChange:
    """A change: the user's record before and now, or the subject of a policy."""

    user: str | None = None
    before: UserRecord | None = None
    now: UserRecord | None = None
    subject: str | None = None

    @property
    def is_revoked(self) -> bool:
        """True if what the user was recognised by before no longer holds."""
        if self.now is None or not self.now.is_enabled:
            return True
        return self.before is not None and self.before.credential != self.now.credential


class Directory:
    """The view of users and policies; `on_change` gets each change after it is taken in. `max_age`: seconds for
    which it may be out of date; 0: for ever."""

    def __init__(
        self, key_values: KeyValues, on_change: Callable[[DirectoryChange], None], max_age: float = 0.0
    ) -> None:
        self._on_change = on_change
        self._key_values, self._max_age = key_values, max_age
        self._users: WatchedTable[UserRecord | _Broken] = WatchedTable(key_values, USER_PREFIX, _decode_user)
        self._policies: WatchedTable[KnownPolicy | _Broken] = WatchedTable(key_values, POLICY_PREFIX, _decode_policy)
        self._users.on_change.append(self._user_changed)
        self._policies.on_change.append(self._policy_changed)
        self._is_loaded = False
        self._had_users = False
        self._scram_iterations: Counter[int] = Counter()

    @property
    def is_loaded(self) -> bool:
        """True once everything is known."""
        return self._is_loaded

    @property
    def is_current(self) -> bool:
        """True if everything is known, and not for too long."""
        return self._is_loaded and not (self._max_age and self._key_values.age_seconds() > self._max_age)

    def check_current(self) -> None:
        """Raise UNAVAILABLE unless everything is known, and not for too long."""
        if self.is_current:
            return
        if not self._is_loaded:
            raise EntrepotError(Code.UNAVAILABLE, "users are not known yet")
        age = self._key_values.age_seconds()
        raise EntrepotError(
            Code.UNAVAILABLE,
            f"what is known of users is {age:.0f} s old, as their broker is away or cut off: nobody is let in by it",
        )

    async def start(self, wait_seconds: float = 0) -> None:
        """Follow changes and load all records, retrying for `wait_seconds` while the keeper is away. Raises what the
        store raises; then nothing is answered. A store without key-values has no users, and can have none."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_seconds
        keeps_users = await self._users.start(wait_seconds)
        if not (keeps_users and await self._policies.start(max(end - loop.time(), 0))):
            _log.warning("the store keeps no users and no policies")
        self._is_loaded = True

    def stop(self) -> None:
        """Stop following and answering."""
        self._is_loaded = False
        self._users.close()
        self._policies.close()

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def has_users(self) -> bool:
        """True if any user is defined, readable or not. Once true, it stays so while the process lives. The last user
        cannot be deleted, so where all have vanished the store has a fault, and nothing opens."""
        return self._had_users

    def has_policy(self, subject: str) -> bool:
        """True if a subject has a policy, readable or not."""
        return self._policies.get(subject) is not None

    def has_user(self, name: str) -> bool:
        """True if a user is defined, readable or not."""
        return self._users.get(name) is not None

    def user(self, name: str) -> UserRecord | None:
        """The readable user of a name, or None."""
        return _user(name, self._users.get(name))

    def users(self) -> list[UserRecord]:
        """The readable users, by name."""
        return [user for name, found in sorted(self._users.items()) if (user := _user(name, found)) is not None]

    def scram_iterations(self, number: int, otherwise: int) -> int:
        """Iterations for a name that is unknown: those of some user, chosen by a number, each as often as users have
        them.  `otherwise`: where no user has keys."""
        place = number % max(self._scram_iterations.total(), 1)
        for iterations, users in sorted(self._scram_iterations.items()):
            if place < users:
                return iterations
            place -= users
        return otherwise

    def policies(self) -> list[PolicyRecord]:
        """The readable policies, by subject."""
        return [policy.record for _, policy in sorted(self._policies.items()) if not isinstance(policy, _Broken)]

    def policy(self, subject: str) -> PolicyRecord | None:
        """The policy of a subject, or None."""
        known = self._policies.get(subject)
        return known.record if isinstance(known, KnownPolicy) else None

    def statements(self, name: str) -> list[tuple[CompiledStatement, ...]] | None:
        """The statements for a name: its own policy and everybody's. None if one of them cannot be read."""
        found = []
        for subject in (name, EVERYBODY):
            policy = self._policies.get(subject)
            if isinstance(policy, _Broken):
                return None
            if policy is not None:
                found.append(policy.statements)
        return found

    # -- changes -------------------------------------------------------------------------------------------------

    async def write(self, change: KeyValueChange) -> None:
        """Write a user or a policy, known here on return. Raises what the store raises."""
        table = self._users if change.key.startswith(USER_PREFIX) else self._policies
        await table.write([change])

    def _user_changed(self, name: str, before: UserRecord | _Broken | None, now: UserRecord | _Broken | None) -> None:
        self._had_users = self._had_users or now is not None
        user, former = _user(name, now), _user(name, before)
        for each, count in ((former, -1), (user, 1)):
            if each is not None and each.scram is not None:
                self._scram_iterations[each.scram.iterations] += count
        if user is None and now is not None:
            _log.error("the record of a user cannot be read: it is refused", user=name)
        self._on_change(DirectoryChange(user=name, before=former, now=user))

    def _policy_changed(
        self, subject: str, before: KnownPolicy | _Broken | None, now: KnownPolicy | _Broken | None
    ) -> None:
        if isinstance(now, _Broken):
            _log.error("a policy cannot be read: its subject may do nothing", subject=subject)
        self._on_change(DirectoryChange(subject=subject))


def _user(name: str, found: UserRecord | _Broken | None) -> UserRecord | None:
    """The record if readable and of that name, or None."""
    return found if isinstance(found, UserRecord) and found.name == name else None


def _decode_user(value: bytes) -> UserRecord | _Broken:
    try:
        return decode_user(value)
    except (msgspec.DecodeError, EntrepotError):
        return _BROKEN


def _decode_policy(value: bytes) -> KnownPolicy | _Broken:
    try:
        record = decode_policy(value)
        return KnownPolicy(record, compile_policy(record.policy()))
    except (msgspec.DecodeError, EntrepotError):
        return _BROKEN
