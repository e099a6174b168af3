"""Refusals of etcd: what is certainly not done, what may be done, and what is refused for good.

A write that is certainly not done may go to another member.  All that is not listed here leaves a write's outcome
unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import grpc

from entrepot.domain.errors import Code, EntrepotError
from entrepot.store_client.etcd.calls import Broken


class Kind(Enum):
    """Kind of a failed call, by what follows from it."""

    FINAL = auto()
    """Refused: another member would say the same."""
    ELSEWHERE = auto()
    """Certainly not done; another member may do it."""
    NEW_TOKEN = auto()
    """Certainly not done, for want of a valid token."""
    COMPACTED = auto()
    """A read of a revision that is gone."""
    UNKNOWN = auto()
    """Done or not."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A failed call: what follows from it, and its code and text for callers."""

    kind: Kind
    code: Code
    text: str

    def error(self) -> EntrepotError:
        return EntrepotError(self.code, f"etcd: {self.text[:300]}")


_TEXTS: Final = (
    ("invalid auth token", Kind.NEW_TOKEN, Code.FORBIDDEN),
    ("revision of auth store is old", Kind.NEW_TOKEN, Code.FORBIDDEN),
    ("user name is empty", Kind.NEW_TOKEN, Code.FORBIDDEN),
    ("authentication failed", Kind.FINAL, Code.FORBIDDEN),
    ("permission denied", Kind.FINAL, Code.FORBIDDEN),
    ("database space exceeded", Kind.FINAL, Code.STORAGE_FULL),
    ("received message larger than max", Kind.FINAL, Code.BAD_REQUEST),
    ("required revision has been compacted", Kind.COMPACTED, Code.UNAVAILABLE),
    ("failed to connect to all addresses", Kind.ELSEWHERE, Code.UNAVAILABLE),
    ("DNS resolution failed", Kind.ELSEWHERE, Code.UNAVAILABLE),
    ("etcdserver: no leader", Kind.ELSEWHERE, Code.UNAVAILABLE),
    ("etcdserver: not capable", Kind.ELSEWHERE, Code.UNAVAILABLE),
    ("rpc not supported for learner", Kind.ELSEWHERE, Code.UNAVAILABLE),
    ("too many requests", Kind.ELSEWHERE, Code.TOO_MANY_REQUESTS),
)
"""Texts of refusals, the first that fits."""


def refusal_of(broken: Broken) -> Refusal:
    """Return what follows from a failed call."""
    text = broken.text
    for part, kind, code in _TEXTS:
        if part in text:
            return Refusal(kind, code, text)
    if broken.status is grpc.StatusCode.INVALID_ARGUMENT:
        return Refusal(Kind.FINAL, Code.BAD_REQUEST, text)
    return Refusal(Kind.UNKNOWN, Code.OUTCOME_UNKNOWN, f"{broken.status.name}: {text}")


def is_about_token(text: str) -> bool:
    """True for a refusal that a new token may end."""
    return any(part in text for part, kind, _ in _TEXTS if kind is Kind.NEW_TOKEN)
