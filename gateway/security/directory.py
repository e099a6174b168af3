"""The users and policies of the store, as this gateway sees them: loaded once, then followed by watch.

Invariants: before everything has been loaded nothing is answered.  What cannot be read is not passed over: a user whose
record is broken cannot come in, and a subject whose policy is broken may do nothing (everybody, if it is the policy of
all).  An older write never takes the place of a newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from domain.access.evaluator import CompiledStatement, compile_policy
from domain.access.model import EVERYBODY
from domain.errors import Code, EntrepotError
from domain.key_value import ABSENT, MAX_SCAN, KeyValueEvent, is_news
from domain.ports import KeyValues
from gateway.security.records import (
    POLICY_PREFIX,
    USER_PREFIX,
    PolicyRecord,
    UserRecord,
    decode_policy,
    decode_user,
)

MAX_REMEMBERED_DELETIONS: Final = 100_000
"""Versions of keys that are gone, kept against writes that arrive late."""
RETRY_SECONDS: Final = 0.2
_PASSING: Final = (Code.UNAVAILABLE, Code.REQUEST_TIMEOUT, Code.OUTCOME_UNKNOWN)
"""Refusals that may be over soon: a broker is away."""
_BROKEN: Final = None
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownPolicy:
    """A policy, and what it says, compiled."""

    record: PolicyRecord
    statements: tuple[CompiledStatement, ...]


@dataclass(frozen=True, slots=True)
class DirectoryChange:
    """What has changed: the user's record before and now, or the subject of a policy."""

    user: str | None = None
    before: UserRecord | None = None
    now: UserRecord | None = None
    subject: str | None = None


class Directory:
    """The view.  `on_changes` is told of each batch, after it has been taken in."""

    def __init__(self, store: KeyValues, on_changes: Callable[[list[DirectoryChange]], None]) -> None:
        self._store = store
        self._on_changes = on_changes
        self._users: dict[str, UserRecord | None] = {}
        self._policies: dict[str, KnownPolicy | None] = {}
        self._versions: dict[str, int] = {}
        self._stops: list[Callable[[], None]] = []
        self._is_loaded = False
        self._had_users = False

    @property
    def is_loaded(self) -> bool:
        """Whether everything is known."""
        return self._is_loaded

    async def start(self, wait_seconds: float = 0) -> None:
        """Follow changes, and load what there is; where it is away, for so long.

        Raises what the store raises; then nothing is answered.  A store that keeps no key-values at all has no users,
        and can have none.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + wait_seconds
        while True:
            try:
                if not self._stops:
                    for prefix in (USER_PREFIX, POLICY_PREFIX):
                        self._stops.append(self._store.watch(prefix, self._changed))
                await self._load()
            except EntrepotError as error:
                if error.code is Code.UNSUPPORTED:
                    _log.warning("the store keeps no users and no policies", reason=error.message)
                elif error.code in _PASSING and loop.time() < end:
                    await asyncio.sleep(RETRY_SECONDS)
                    continue
                else:
                    raise
            self._is_loaded = True
            return

    async def _load(self) -> None:
        """Everything there is."""
        for prefix in (USER_PREFIX, POLICY_PREFIX):
            after = ""
            while True:
                page = await self._store.scan(prefix, after=after, limit=MAX_SCAN)
                for entry in page:
                    self._take(KeyValueEvent(entry.key, entry.value, entry.version))
                if len(page) < MAX_SCAN:
                    break
                after = page[-1].key

    def stop(self) -> None:
        """Follow no more, and answer no more."""
        self._is_loaded = False
        for stop in self._stops:
            stop()
        self._stops.clear()

    # -- what is known -------------------------------------------------------------------------------------------

    @property
    def has_users(self) -> bool:
        """Whether any user is defined, readable or not.  Once there was one it stays so while the process lives: the
        last one cannot be deleted, so where all have vanished something is wrong with the store, and nothing opens."""
        return self._had_users

    def has_policy(self, subject: str) -> bool:
        """Whether anything is said of a subject, readable or not."""
        return subject in self._policies

    def has_user(self, name: str) -> bool:
        """Whether it is defined, readable or not."""
        return name in self._users

    def user(self, name: str) -> UserRecord | None:
        """A user that can be read."""
        return self._users.get(name)

    def users(self) -> list[UserRecord]:
        """Users that can be read, by name."""
        return [user for _, user in sorted(self._users.items()) if user is not None]

    def policies(self) -> list[PolicyRecord]:
        """Policies that can be read, by subject."""
        return [policy.record for _, policy in sorted(self._policies.items()) if policy is not None]

    def policy(self, subject: str) -> PolicyRecord | None:
        """The policy of a subject."""
        known = self._policies.get(subject)
        return None if known is None else known.record

    def statements(self, name: str) -> list[tuple[CompiledStatement, ...]] | None:
        """What holds for somebody: his own policy and everybody's.  None if one of them cannot be read."""
        found = []
        for subject in (name, EVERYBODY):
            if subject in self._policies:
                policy = self._policies[subject]
                if policy is _BROKEN:
                    return None
                found.append(policy.statements)
        return found

    # -- changes -------------------------------------------------------------------------------------------------

    async def settled(self, key: str, version: int) -> None:
        """Take in what was just written here, if the watch has not brought it yet: who wrote it reads it."""
        if is_news(version, self._versions.get(key, ABSENT)):
            (found,) = await self._store.get([key])
            value = None if found is None else found.value
            self._changed([KeyValueEvent(key, value, version if found is None else found.version)])

    def _changed(self, events: list[KeyValueEvent]) -> None:
        changes = [change for event in events if (change := self._take(event)) is not None]
        if changes:
            self._on_changes(changes)

    def _take(self, event: KeyValueEvent) -> DirectoryChange | None:
        if not is_news(event.version, self._versions.get(event.key, ABSENT)):
            return None
        self._versions[event.key] = event.version
        if len(self._versions) > len(self._users) + len(self._policies) + MAX_REMEMBERED_DELETIONS:
            self._forget_deletions()
        if event.key.startswith(USER_PREFIX):
            return self._take_user(event.key.removeprefix(USER_PREFIX), event.value)
        return self._take_policy(event.key.removeprefix(POLICY_PREFIX), event.value)

    def _forget_deletions(self) -> None:
        there = {USER_PREFIX + name for name in self._users} | {POLICY_PREFIX + name for name in self._policies}
        self._versions = {key: version for key, version in self._versions.items() if key in there}

    def _take_user(self, name: str, value: bytes | None) -> DirectoryChange:
        before = self._users.get(name)
        self._had_users = self._had_users or value is not None
        if value is None:
            self._users.pop(name, None)
            return DirectoryChange(user=name, before=before)
        try:
            user = decode_user(value)
            if user.name != name:
                raise EntrepotError(Code.INTERNAL_ERROR, "the record is another user's")
        except (msgspec.DecodeError, EntrepotError) as error:
            _log.error("the record of a user cannot be read: it is refused", user=name, error=str(error))
            self._users[name] = _BROKEN
            return DirectoryChange(user=name, before=before)
        self._users[name] = user
        return DirectoryChange(user=name, before=before, now=user)

    def _take_policy(self, subject: str, value: bytes | None) -> DirectoryChange:
        if value is None:
            self._policies.pop(subject, None)
            return DirectoryChange(subject=subject)
        try:
            record = decode_policy(value)
            self._policies[subject] = KnownPolicy(record, compile_policy(record.policy()))
        except (msgspec.DecodeError, EntrepotError) as error:
            _log.error("a policy cannot be read: its subject may do nothing", subject=subject, error=str(error))
            self._policies[subject] = _BROKEN
        return DirectoryChange(subject=subject)
