"""Questions: what a member asks its machine and waits for, by tokens below 0; those of proposals are above."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from entrepot.broker.raft import effects as raft
from entrepot.domain.errors import EntrepotError


class Questions:
    """The questions.  `step`: hands one to the machine."""

    def __init__(self, step: Callable[[raft.Event], None]) -> None:
        self._step = step
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._last = 0

    async def ask(self, question: Callable[[int], raft.Event]) -> None:
        """Return when it is done.  Raises its refusal."""
        self._last -= 1
        token = self._last
        answer = self._waiting[token] = asyncio.get_running_loop().create_future()
        try:
            self._step(question(token))
            await answer
        finally:
            self._waiting.pop(token, None)

    def settle(self, token: int, refusal: EntrepotError | None = None) -> bool:
        """End a question; False if the token is none's."""
        answer = self._waiting.get(token)
        if answer is None:
            return False
        if not answer.done():
            if refusal is None:
                answer.set_result(None)
            else:
                answer.set_exception(refusal)
        return True

    def refuse_all(self, refusal: Callable[[], EntrepotError]) -> None:
        for token in self._waiting:
            self.settle(token, refusal())

    def cancel_all(self) -> None:
        for answer in self._waiting.values():
            answer.cancel()
