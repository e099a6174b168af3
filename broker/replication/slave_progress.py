"""What goes from a master to a slave, and what the master knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from domain.replication.epochs import EpochStart
from domain.replication.mastership import Member


class Run(NamedTuple):
    """Whole records on their way to a slave.  `floor`: the highest durable floor that one of them bears.  `starts`: of
    the EPOCH records among them.  `confirmed`: by the master, when it sent them."""

    offset: int
    data: bytes
    floor: int
    confirmed: int
    starts: tuple[EpochStart, ...] = ()


@dataclass(slots=True)
class SlaveProgress:
    """A slave as its master knows it.  `stream`: number of its stream, -1 when that has ended.  `sent`: up to where the
    log is on its way.  `acknowledged`: up to where the slave has synced it."""

    stream: int
    member: Member
    sent: int
    acknowledged: int = 0
