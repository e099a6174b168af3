"""GroupConsumer: one consumer of a group as any listener shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupConsumer:
    """A consumer at this gateway, or, without a `source`, one of the whole cluster.

    `door`: the protocol.  `client`: its own id; `user`: its name, or empty; `source`: its address.  `topics`: stored
    names or filters, as far as they are known.  `queues`: ids of the queues that it owns whole; None where it shares
    messages.  `held`: its unsettled messages; None where they are not known.  `detail`: what else tells it apart.
    """

    door: str
    client: str
    user: str = ""
    source: str = ""
    topics: tuple[str, ...] = ()
    queues: tuple[int, ...] | None = None
    held: int | None = None
    detail: str = ""
