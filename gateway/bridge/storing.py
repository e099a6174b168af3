"""Storing: what came over a bridge into the store, in its order, until all of it is stored or refused for good.

A passing refusal is retried, with everything after it.  A lasting refusal is logged and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from entrepot.domain.errors import UNANSWERED, Code, EntrepotError
from entrepot.domain.message import Message, in_doubt
from entrepot.gateway.bridge.status import BridgeCounters
from entrepot.gateway.messaging.send import Refusals

RETRY_SECONDS: Final = 0.5
"""Pause before the next try after a passing refusal of the store."""
FOR_GOOD: Final = frozenset(
    (
        Code.BAD_REQUEST,
        Code.ILLEGAL_TOPIC,
        Code.FORBIDDEN,
        Code.ILLEGAL_DELIVERY_TIME,
        Code.MESSAGE_BODY_TOO_LARGE,
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        Code.UNSUPPORTED,
    )
)
"""Refusals that a retry does not change."""
FOR_GOOD_WHATEVER_IS_CHANGED: Final = FOR_GOOD - {Code.FORBIDDEN}
"""Those of the message itself: rights and permissions may still be given."""

log = structlog.get_logger(__name__)


class Storing:
    """The way of one bridge into the store.  `send`: returns the refusals, and raises what made all of them fail.
    `for_good`: codes of lasting refusals."""

    def __init__(
        self,
        bridge: str,
        send: Callable[[Sequence[Message]], Awaitable[Refusals]],
        counters: BridgeCounters,
        for_good: frozenset[Code] = FOR_GOOD,
    ) -> None:
        self._bridge, self._send, self._counters, self._for_good = bridge, send, counters, for_good
        self.last_refusal = ""

    async def store(self, messages: Sequence[Message]) -> None:
        """Return once each message is stored, or refused for good."""
        pending = list(messages)
        while pending:
            refusals, is_unknown = await self._sent(pending)
            stuck = next(
                (place for place, refusal in enumerate(refusals or ()) if self._is_for_now(refusal)), len(pending)
            )
            refused = self._note_refused(pending[:stuck], refusals)
            self._counters.refused_in += refused
            self._counters.received += stuck - refused
            pending = pending[stuck:]
            if is_unknown:  # the store takes what it lacks
                pending = [in_doubt(message) for message in pending]
            if pending and refusals is not None:
                await self._wait_again(refusals[stuck])
        self.last_refusal = ""

    async def _sent(self, messages: list[Message]) -> tuple[Refusals, bool]:
        """Return the store's refusals, and whether some may be stored all the same; a failure of all is a passing
        refusal of the first."""
        try:
            return await self._send(messages), False
        except EntrepotError as failure:
            if self._is_for_now(failure):
                return [failure, *[None] * (len(messages) - 1)], failure.code in UNANSWERED
            return [failure] * len(messages), False

    async def _wait_again(self, refusal: EntrepotError | None) -> None:
        reason = "" if refusal is None else refusal.message
        if reason != self.last_refusal:
            log.warning("the store takes nothing from a bridge for now", bridge=self._bridge, reason=reason)
        self.last_refusal = reason
        await asyncio.sleep(RETRY_SECONDS)

    def _note_refused(self, messages: Sequence[Message], refusals: Refusals) -> int:
        count = 0
        for message, refusal in zip(messages, refusals or (), strict=False):
            if refusal is not None:
                count += 1
                log.warning(
                    "a message of a bridge is refused for good",
                    bridge=self._bridge,
                    name=message.sub_topic,
                    reason=refusal.message,
                )
        return count

    def _is_for_now(self, refusal: EntrepotError | None) -> bool:
        return refusal is not None and refusal.code not in self._for_good
