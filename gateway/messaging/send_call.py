"""Call: one call of `Sender.send` on its way, and how it is told its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message

Refusals = Sequence[EntrepotError | None] | None
OnSent = Callable[[EntrepotError | None, Refusals], None]
"""Called once per `send`: (failure of all, None) or (None, refusals per message, None = all confirmed)."""
Source: TypeAlias = object
"""The sender of calls that are to stay in order; None for a call of its own."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Call:
    """Messages that are sent together, and the callback that gets their one outcome."""

    messages: Sequence[Message]
    on_sent: OnSent
    source: Source = None
    needed: frozenset[str] = frozenset()
    """Names whose topics are being made for it."""
    size: int = 0
    """Bytes of the bodies, where it waits for new topics."""

    @property
    def is_withdrawn(self) -> bool:
        """True if the messages must not be stored any more: the callback says so, if it can, by an attribute."""
        return getattr(self.on_sent, "is_withdrawn", False)

    def tell(self, failure: EntrepotError | None, refusals: Refusals = None) -> None:
        """Tell the outcome.  A fault there is that call's: the others are told theirs."""
        try:
            self.on_sent(failure, refusals)
        except Exception:
            log.exception("a callback of a publish failed")


def without_withdrawn(calls: list[Call]) -> list[Call]:
    """Return the calls that are to be stored; withdrawn ones are told that they failed."""
    left = []
    for call in calls:
        if call.is_withdrawn:
            call.tell(EntrepotError(Code.UNAVAILABLE, "an earlier message of this sender failed"))
        else:
            left.append(call)
    return left


def joined(calls: Sequence[Call]) -> list[Message]:
    """Return the messages of all calls, in order."""
    return [message for call in calls for message in call.messages]
