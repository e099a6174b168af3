"""Operation: one operation of the wire, and the parts of a cluster that may ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from entrepot.domain import ingest_job
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.journey import ingest_record
from entrepot.protocols.wire.authentication import Role
from entrepot.protocols.wire.values import Codec, encode

ANYBODY: Final = frozenset(Role)
PARTS: Final = ANYBODY - {Role.JOB}
BROKERS: Final = frozenset((Role.BROKER,))
CONTROLLERS: Final = frozenset((Role.CONTROLLER,))
GATEWAYS: Final = frozenset((Role.GATEWAY,))
JOB_KEYS: Final = (ingest_job.PREFIX, ingest_job.WRITTEN_PREFIX, ingest_record.PREFIX)
"""Prefixes of the key-values of jobs."""
ELECTORS: Final = frozenset((Role.BROKER, Role.GATEWAY))


OPERATIONS: Final[dict[int, Operation]] = {}
"""Every operation, by number (`all_operations`)."""


@dataclass(eq=False)
class Operation:
    """One operation of the wire."""

    number: int
    name: str
    arguments: Codec[Any] | None
    result: Codec[Any] | None
    is_idempotent: bool = False
    is_stream: bool = False
    callers: frozenset[Role] = PARTS
    """The parts that may ask for it, where the cluster has a secret."""
    keys: Callable[[Any], Iterable[str]] | None = None
    """The key-values that its arguments name, by key or prefix, if it names some."""

    def __post_init__(self) -> None:
        assert self.number not in OPERATIONS
        OPERATIONS[self.number] = self

    def asked_by(self, role: Role | None, payload: bytes) -> tuple[Any, ...]:
        """Return the arguments of a request.  Raises FORBIDDEN for key-values of others: a job has its own alone."""
        arguments: tuple[Any, ...] = () if self.arguments is None else self.arguments.decode(payload)
        if role is Role.JOB and self.keys is not None:
            for key in self.keys(arguments):
                if not key.startswith(JOB_KEYS):
                    raise EntrepotError(Code.FORBIDDEN, f"{self.name} of {key[:80]!r} is not for a job")
        return arguments

    def encode_arguments(self, *arguments: Any) -> bytes:
        """Return the payload of a request."""
        return encode(arguments)
