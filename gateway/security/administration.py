"""Changes of users and policies: by the API, and at the start by the settings (`initial_admin.py`).

Invariants: every change is a compare-and-set and is audited; a password is never in an audit entry or an answer. From
the first user on there is always an enabled super user as far as this gateway sees. The first user is one, and the last
one cannot be deleted, disabled or demoted, so nobody is locked out and nothing opens again. Users lose their own super
rights or their own user only if they say so.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import msgspec

from entrepot.domain.access.evaluator import compile_policy
from entrepot.domain.access.model import ANONYMOUS, EVERYBODY, Policy, Statement, is_user_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.security.audit import OUTCOME_UNKNOWN, AuditLog
from entrepot.gateway.security.changes import By, UserChange
from entrepot.gateway.security.directory import Directory
from entrepot.gateway.security.passwords import PasswordChecker
from entrepot.gateway.security.records import (
    POLICY_PREFIX,
    USER_PREFIX,
    PolicyRecord,
    UserRecord,
    decode_user,
    encode,
    statement_record,
)
from entrepot.gateway.security.setup_token import SetupToken, SetupTokenNeededError

MAX_USERS: Final = 100_000
MAX_POLICIES: Final = 100_000
CREDENTIAL_BYTES: Final = 12
MIN_SIGNING_SECRET: Final = 8
CONFIRM_OWN: Final = "confirm=own-rights"
"""Query of a request by which users give up their own rights."""
MAX_SIGNING_SECRET: Final = 1024

_UNSURE: Final = (Code.OUTCOME_UNKNOWN, Code.REQUEST_TIMEOUT, Code.UNAVAILABLE, Code.INTERNAL_ERROR)
"""Codes after which a write may have been made."""


class Administration:
    """Changes of users and policies in the store."""

    def __init__(
        self,
        key_values: KeyValues,
        directory: Directory,
        passwords: PasswordChecker,
        audit: AuditLog,
        setup_token: SetupToken,
    ) -> None:
        self._key_values = key_values
        self._directory = directory
        self._passwords = passwords
        self._audit = audit
        self._setup_token = setup_token
        self._lock = asyncio.Lock()

    def check_may_change(self, by: By) -> None:
        """Raise SetupTokenNeededError for an anonymous author: users and policies would be the first comer's."""
        if by.is_anonymous:
            raise SetupTokenNeededError(self._setup_token.path)

    # -- users ---------------------------------------------------------------------------------------------------

    def users(self) -> list[UserRecord]:
        """Every readable user, by name."""
        return self._directory.users()

    def user(self, name: str) -> UserRecord | None:
        """The user of a name, or None."""
        return self._directory.user(name)

    async def put_user(
        self, by: By, name: str, change: UserChange, *, only_new: bool = False
    ) -> tuple[UserRecord, bool]:
        """Create or change a user; True if it is new. With `only_new`, an existing one is not changed.

        Raises UNAUTHORIZED (an anonymous author of the first user), BAD_REQUEST (an invalid name or password),
        PRECONDITION_FAILED (no super user would be left, the author would lose their own rights, a concurrent change,
        or `only_new` and it exists),
        TOO_MANY_REQUESTS (MAX_USERS).
        """
        self.check_may_change(by)
        if not is_user_name(name):
            raise EntrepotError(
                Code.BAD_REQUEST, f"{name[:80]!r} cannot be the name of a user: it is empty, reserved or not printable"
            )
        async with self._lock:
            key, is_first = USER_PREFIX + name, not self._directory.has_users
            (found,) = await self._key_values.get([key])
            before = _readable(found)
            if only_new and found is not None:
                raise EntrepotError(Code.PRECONDITION_FAILED, f"there is a user {name!r} already")
            if found is None and len(self._directory.users()) >= MAX_USERS:
                raise EntrepotError(Code.TOO_MANY_REQUESTS, f"there are {MAX_USERS} users already")
            record = await self._changed(name, before, change)
            self._check_a_super_user_stays(name, record)
            _check_own_rights(by, name, before, record)
            event = "user created" if found is None else "user changed"
            await self._write(by, event, name, key, encode(record), found)
        if is_first:
            await self._setup_token.forget()
        told = ", ".join(
            word
            for word, is_said in (
                ("password changed", change.password is not None or change.password_hash is not None),
                (f"tags: {' '.join(record.tags)}", bool(change.tags)),
                ("signing secret changed", change.signing_secret is not None),
                (f"super: {record.is_super}", change.is_super is not None),
                (f"enabled: {record.is_enabled}", change.is_enabled is not None),
            )
            if is_said
        )
        self._audit.changed(event, by.name, by.source, name, told)
        return record, found is None

    async def delete_user(self, by: By, name: str) -> bool:
        """Delete a user; True if there was one. Raises PRECONDITION_FAILED for the last super user, and for the author
        who has not said so."""
        return await self._delete(by, USER_PREFIX, name, "user deleted")

    async def is_kept(self, name: str) -> bool:
        """True if the store itself has a user of that name, readable or not."""
        return (await self._key_values.get([USER_PREFIX + name]))[0] is not None

    # -- policies ------------------------------------------------------------------------------------------------

    def policies(self) -> list[PolicyRecord]:
        """Every readable policy, by subject."""
        return self._directory.policies()

    def policy(self, subject: str) -> PolicyRecord | None:
        """The policy of a subject, or None."""
        return self._directory.policy(subject)

    async def put_policy(
        self, by: By, subject: str, statements: list[Statement], *, only_new: bool = False
    ) -> tuple[PolicyRecord, bool]:
        """Replace the policy of a subject; True if there was none. With `only_new`, an existing one is not replaced.

        Raises UNAUTHORIZED, BAD_REQUEST, PRECONDITION_FAILED (also `only_new` and it exists), TOO_MANY_REQUESTS
        (MAX_POLICIES).
        """
        self.check_may_change(by)
        if subject not in (EVERYBODY, ANONYMOUS) and not is_user_name(subject):
            raise EntrepotError(Code.BAD_REQUEST, f"{subject[:80]!r} cannot be the subject of a policy")
        compile_policy(Policy(subject, tuple(statements)))
        record = PolicyRecord(subject, [statement_record(statement) for statement in statements])
        async with self._lock:
            key = POLICY_PREFIX + subject
            (found,) = await self._key_values.get([key])
            if only_new and found is not None:
                raise EntrepotError(Code.PRECONDITION_FAILED, f"there is a policy of {subject!r} already")
            if found is None and len(self._directory.policies()) >= MAX_POLICIES:
                raise EntrepotError(Code.TOO_MANY_REQUESTS, f"there are {MAX_POLICIES} policies already")
            await self._write(by, "policy changed", subject, key, encode(record), found)
        self._audit.changed("policy changed", by.name, by.source, subject, f"{len(statements)} statements")
        return record, found is None

    async def delete_policy(self, by: By, subject: str) -> bool:
        """Delete the policy of a subject; True if there was one."""
        return await self._delete(by, POLICY_PREFIX, subject, "policy deleted")

    # -- inside --------------------------------------------------------------------------------------------------

    async def _delete(self, by: By, prefix: str, name: str, told: str) -> bool:
        self.check_may_change(by)
        async with self._lock:
            (found,) = await self._key_values.get([prefix + name])
            if found is None:
                return False
            if prefix == USER_PREFIX:
                self._check_a_super_user_stays(name, None)
                _check_own_rights(by, name, _readable(found), None)
            await self._write(by, told, name, prefix + name, None, found)
        self._audit.changed(told, by.name, by.source, name)
        return True

    async def _write(
        self, by: By, event: str, name: str, key: str, value: bytes | None, found: KeyValue | None
    ) -> None:
        """Write, and audit a write of unknown outcome; the caller audits the others."""
        expected = ABSENT if found is None else found.version
        try:
            await self._directory.write(KeyValueChange(key, value, expected))
        except EntrepotError as error:
            if error.code in _UNSURE:
                self._audit.changed(event + OUTCOME_UNKNOWN, by.name, by.source, name)
            raise

    async def _changed(self, name: str, before: UserRecord | None, change: UserChange) -> UserRecord:
        record = before or UserRecord(name, is_super=False, is_enabled=True, credential=_new_credential())
        if change.password is not None:
            password_hash, scram = await self._passwords.secrets_of(change.password)
            record = msgspec.structs.replace(
                record, password_hash=password_hash, scram=scram, credential=_new_credential()
            )
        if change.password_hash is not None and (change.password_hash or None) != record.password_hash:
            record = msgspec.structs.replace(
                record, password_hash=change.password_hash or None, scram=None, credential=_new_credential()
            )
        if change.signing_secret is not None:
            _check_signing_secret(change.signing_secret)
            record = msgspec.structs.replace(
                record, signing_secret=change.signing_secret or None, credential=_new_credential()
            )
        is_super = record.is_super if change.is_super is None else change.is_super
        is_enabled = record.is_enabled if change.is_enabled is None else change.is_enabled
        if record.is_enabled and not is_enabled:  # logins from before stay void, also once the user is enabled again
            record = msgspec.structs.replace(record, credential=_new_credential())
        tags = record.tags if change.tags is None else change.tags
        return msgspec.structs.replace(record, is_super=is_super, is_enabled=is_enabled, tags=tags)

    def _check_a_super_user_stays(self, name: str, record: UserRecord | None) -> None:
        if record is not None and record.is_super and record.is_enabled:
            return
        if any(user.is_super and user.is_enabled for user in self._directory.users() if user.name != name):
            return
        if self._directory.has_users:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"{name!r} is the last super user: there must be another one")
        raise EntrepotError(
            Code.PRECONDITION_FAILED, "the first user must be a super user: nobody else could make others"
        )


def _check_own_rights(by: By, name: str, before: UserRecord | None, now: UserRecord | None) -> None:
    if by.may_lose_own or by.name != name or before is None:
        return
    had, has = (each is not None and each.is_super and each.is_enabled for each in (before, now))
    if now is None or (had and not has):
        what = "delete" if now is None else "take the rights of"
        raise EntrepotError(
            Code.PRECONDITION_FAILED, f"this would {what} your own user {name!r}: confirm it with {CONFIRM_OWN}"
        )


def _check_signing_secret(secret: str) -> None:
    if secret and not (MIN_SIGNING_SECRET <= len(secret.encode()) <= MAX_SIGNING_SECRET and secret.isprintable()):
        raise EntrepotError(
            Code.BAD_REQUEST, f"a signing secret has {MIN_SIGNING_SECRET} to {MAX_SIGNING_SECRET} printable characters"
        )


def _readable(found: KeyValue | None) -> UserRecord | None:
    """The record, or None; an unreadable one is overwritten."""
    if found is None:
        return None
    try:
        return decode_user(found.value)
    except msgspec.DecodeError:
        return None


def _new_credential() -> str:
    return secrets.token_hex(CREDENTIAL_BYTES)
