"""Members of etcd: a call goes to one of them, and moves on where that is certain to do no harm.

Invariant: a write that may have been done is never sent again here.  It is told as OUTCOME_UNKNOWN.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import grpc

from entrepot.domain.errors import Code, EntrepotError
from entrepot.store_client.etcd.calls import A, Broken, Call, Member, Q, WatchStream
from entrepot.store_client.etcd.refusals import Kind, Refusal, refusal_of
from entrepot.store_client.etcd.settings import EtcdSettings
from entrepot.store_client.etcd.tokens import Token

PAUSE_SECONDS: Final = 0.05
"""Pause before another member is asked."""
NEW_TOKENS: Final = 2
"""Tokens that one call may ask for."""


class Compacted(Exception):
    """A read of a revision that etcd no longer has."""


class Members:
    """All members, of which one is asked at a time.  `left`: called when another one is asked from now on."""

    def __init__(self, settings: EtcdSettings) -> None:
        credentials = settings.credentials()
        self.all = [Member(address, credentials) for address in settings.addresses]
        self.left: list[Callable[[], None]] = []
        self.turn = 0
        """Number of moves so far: it names the present member."""
        self.asked, self.refused = 0, 0
        """Calls so far, and those that a member did not carry out, or did not answer."""
        self._settings = settings
        self._token = Token(settings.user, settings.password, settings.request_seconds)
        self._is_closed = False

    def leave(self, turn: int) -> None:
        """Ask the next member from now on, unless another call has left this one already."""
        if turn != self.turn:
            return
        self.turn += 1
        for callback in tuple(self.left):
            callback()

    @property
    def present(self) -> Member:
        return self.all[self.turn % len(self.all)]

    async def ask(
        self,
        call: Call[Q, A],
        question: Q,
        seconds: float | None = None,
        *,
        is_write: bool = False,
        patience: float | None = None,
    ) -> A:
        """Return a member's answer.  Reads, and writes that were certainly not done, go on to other members for
        `patience` seconds.  Raises Compacted, and OUTCOME_UNKNOWN for a write that may have been done."""
        loop = asyncio.get_running_loop()
        end = loop.time() + (self._settings.patience_seconds if patience is None else patience)
        tokens = 0
        while True:
            turn = self.turn
            answer = await self._once(self.present, call, question, seconds or self._settings.request_seconds)
            if not isinstance(answer, Refusal):
                return answer
            if answer.kind is Kind.COMPACTED:
                raise Compacted(answer.text)
            if answer.kind is Kind.NEW_TOKEN and self._token.is_needed and tokens < NEW_TOKENS:
                tokens += 1
                continue
            if answer.kind in (Kind.FINAL, Kind.NEW_TOKEN):
                raise answer.error()
            self.leave(turn)
            if answer.kind is Kind.UNKNOWN and is_write:
                raise answer.error()
            if loop.time() >= end or self._is_closed:
                code = Code.UNAVAILABLE if answer.kind is Kind.UNKNOWN else answer.code
                raise EntrepotError(code, answer.error().message)
            await asyncio.sleep(PAUSE_SECONDS)

    async def ask_one(self, member: Member, call: Call[Q, A], question: Q, seconds: float) -> A | Refusal:
        """Ask this very member once, with a new token if need be."""
        answer = await self._once(member, call, question, seconds)
        if isinstance(answer, Refusal) and answer.kind is Kind.NEW_TOKEN and self._token.is_needed:
            answer = await self._once(member, call, question, seconds)
        return answer

    async def _once(self, member: Member, call: Call[Q, A], question: Q, seconds: float) -> A | Refusal:
        if self._is_closed:
            return Refusal(Kind.FINAL, Code.UNAVAILABLE, "the connections are closed")
        try:
            token = await self._token.of(member)
        except Broken as broken:
            refusal = refusal_of(broken)
            # nothing was asked yet, so nothing is done
            return refusal if refusal.kind is Kind.FINAL else Refusal(Kind.ELSEWHERE, Code.UNAVAILABLE, refusal.text)
        self.asked += 1
        try:
            return await member.ask(call, question, seconds, token)
        except Broken as broken:
            self.refused += 1
            refusal = refusal_of(broken)
            if refusal.kind is Kind.NEW_TOKEN:
                self._token.forget(token)
            return refusal

    async def watch(self) -> tuple[WatchStream, str]:
        """Open a stream of watches at the present member; return its token, too.  Raises Broken."""
        if self._is_closed:
            raise Broken(grpc.StatusCode.UNAVAILABLE, "the connections are closed")
        member = self.present
        token = await self._token.of(member)
        return member.watch(token), token

    def forget(self, token: str) -> None:
        """Ask for another token before the next call."""
        self._token.forget(token)

    async def close(self) -> None:
        """Close the channels; calls on them end."""
        self._is_closed = True
        await asyncio.gather(*(member.close() for member in self.all))
