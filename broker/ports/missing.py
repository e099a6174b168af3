"""Appends missing messages: of messages in doubt, those that the log does not have.

A gateway that lost the answer to an append asks the next master this way. Every message that the old master confirmed
is in this log, and it will never confirm another. So a message missing here now comes from nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from entrepot.broker.commit.group_commit import GroupCommit
from entrepot.broker.ports.finder import Finder
from entrepot.broker.ports.messages import Messages
from entrepot.broker.ports.timers import Timers
from entrepot.domain.confirmation import Confirmation, append_at
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, SystemProperty

MINTED_BYTES: Final = 16
"""Length of a message id made by a gateway, in bytes (`domain.message.Message`)."""


class Missing:
    """Appending of messages in doubt. A stored message is the same if id, topic, time of birth and body are: producers
    choose ids, and may give one to two messages. An id from a gateway has one message, which is born anew when a client
    sends it again through another gateway."""

    def __init__(self, messages: Messages, finder: Finder, timers: Timers, commit: GroupCommit) -> None:
        self._messages, self._finder, self._timers, self._commit = messages, finder, timers, commit

    def append(self, messages: Sequence[Message], refusal: EntrepotError | None = None) -> Confirmation:
        """Append the messages that are not stored. `refusal`: the reason to take none now. Refusals as `append`, known
        once it is settled where some may be stored and are not confirmed yet: those are waited for first."""
        if not any(map(self._is_unconfirmed, messages)):
            return self._append(messages, refusal)
        later = Confirmation()

        def go(failure: EntrepotError | None) -> None:
            if failure is not None:
                later.settle(failure)
                return
            found = self._append(messages, refusal)
            found.when_settled(partial(_settle, later, found))

        self._commit.submit(Confirmation()).when_settled(go)
        return later

    def _is_unconfirmed(self, message: Message) -> bool:
        at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
        is_timed = at_ms is not None and self._timers.is_unconfirmed(message.message_id, at_ms)
        return is_timed or self._finder.is_unconfirmed(message.message_id)

    def _append(self, messages: Sequence[Message], refusal: EntrepotError | None) -> Confirmation:
        missing = [place for place, message in enumerate(messages) if not self._is_stored(message)]
        refusals: list[EntrepotError | None] = [None] * len(messages)
        if refusal is not None:
            for place in missing:
                refusals[place] = refusal
            missing = []
        return append_at(missing, messages, refusals, self._messages.append)

    def _is_stored(self, message: Message) -> bool:
        at_ms = message.time_ms(SystemProperty.DELIVER_AT_MS)
        if at_ms is not None and self._timers.waits(message.topic, message.message_id, at_ms):
            return True
        is_minted = len(message.message_id) == MINTED_BYTES
        return any(
            (stored.topic, stored.body) == (message.topic, message.body)
            and (is_minted or stored.born_time_ms == message.born_time_ms)
            for stored in self._finder.having_id(message.message_id)
        )


def _settle(later: Confirmation, found: Confirmation, failure: EntrepotError | None) -> None:
    """Settle with what was found. Others of the batch may be refused already: their places are not asked about."""
    known, told = later.refusals, iter(found.refusals or ())
    if known is None:
        later.refusals = found.refusals
    else:
        later.refusals = [refusal or next(told, None) for refusal in known]
    later.settle(failure)
