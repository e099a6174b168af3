"""The stored records of users and policies: `user/<name>` and `acl/<subject>`, as JSON.

No answer contains a secret: a password is kept as an argon2id hash, or the hash of RabbitMQ that came, and as
SCRAM-SHA-256 keys. Only definitions that go out have the hash, for super users. A signing secret (RocketMQ's secret
key) is kept as it is, since checking a signature needs it. So it is never the password.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from entrepot.domain.access.model import Action, Effect, Policy, Statement
from entrepot.domain.errors import Code, EntrepotError

USER_PREFIX: Final = "user/"
POLICY_PREFIX: Final = "acl/"


class ScramKeys(msgspec.Struct, frozen=True):
    """The keys of SCRAM-SHA-256 (RFC 5802, section 3)."""

    salt: bytes
    iterations: Annotated[int, msgspec.Meta(ge=4096)]
    stored_key: bytes
    server_key: bytes


class UserRecord(msgspec.Struct, frozen=True):
    """A user; `credential` changes with every change of the password. A user without a password comes in by certificate
    or token only."""

    name: str
    is_super: bool
    is_enabled: bool
    credential: str
    password_hash: str | None = None
    scram: ScramKeys | None = None
    signing_secret: str | None = None
    tags: tuple[str, ...] = ()
    """RabbitMQ's tags beside `administrator`, which is `is_super`.  They give no rights."""


class StatementRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement, as in policies and in the claim of a token."""

    effect: Effect
    actions: list[Action]
    resources: list[str]
    sources: list[str] = []

    def statement(self) -> Statement:
        """The statement for the evaluator."""
        return Statement(self.effect, tuple(self.actions), tuple(self.resources), tuple(self.sources))


class PolicyRecord(msgspec.Struct, frozen=True):
    """The statements about one subject."""

    subject: str
    statements: list[StatementRecord]

    def policy(self) -> Policy:
        """The policy for the evaluator."""
        return Policy(self.subject, tuple(each.statement() for each in self.statements))


_USER_DECODER: Final = msgspec.json.Decoder(UserRecord)
_POLICY_DECODER: Final = msgspec.json.Decoder(PolicyRecord)
_STATEMENTS_TYPE: Final = list[StatementRecord]


def encode(record: UserRecord | PolicyRecord) -> bytes:
    """Encode a record for the store."""
    return msgspec.json.encode(record)


def decode_user(value: bytes) -> UserRecord:
    """Decode a user. Raises `msgspec.DecodeError`."""
    return _USER_DECODER.decode(value)


def decode_policy(value: bytes) -> PolicyRecord:
    """Decode a policy. Raises `msgspec.DecodeError`."""
    return _POLICY_DECODER.decode(value)


def statement_record(statement: Statement) -> StatementRecord:
    """The stored form of a statement."""
    return StatementRecord(
        statement.effect, list(statement.actions), list(statement.resources), list(statement.sources)
    )


def statements_of_claim(claim: object) -> tuple[Statement, ...]:
    """Return the statements in a token's claim. Raises BAD_REQUEST."""
    try:
        records = msgspec.convert(claim, _STATEMENTS_TYPE)
    except msgspec.ValidationError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"the statements of the token cannot be read: {error}") from None
    return tuple(record.statement() for record in records)
