"""A change of users and policies: its author, and the fields of a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal


@dataclass(frozen=True, slots=True)
class UserChange:
    """The fields of a user to change; None leaves a field, or sets the default of a new user."""

    password: str | None = None
    is_super: bool | None = None
    is_enabled: bool | None = None
    signing_secret: str | None = None
    """New signing secret; empty removes it."""
    password_hash: str | None = None
    """A hash instead of the password, as `rabbitmq_hashes.kept_hash` makes it; empty removes the password."""
    tags: tuple[str, ...] | None = None
    """RabbitMQ's tags beside `administrator`."""


@dataclass(frozen=True, slots=True)
class By:
    """The author of a change, for the audit log."""

    name: str
    source: str
    is_anonymous: bool = False
    """True without any credentials: not enough to define the first user."""
    may_lose_own: bool = False
    """True if the author may delete, disable or demote their own user."""

    @classmethod
    def principal(cls, principal: Principal, *, may_lose_own: bool = False) -> By:
        return cls(principal.name, principal.source, principal.is_anonymous, may_lose_own)
