"""GrpcServer: the connections of one gRPC listener, and their drain.

The drain has two steps (RFC 9113, 6.8): clients are asked to open no more streams here, and told the last one that is
served once they have read that.  So no call is lost in between: refused ones go to another server.
"""

from __future__ import annotations

import asyncio
from typing import Final

from entrepot.domain.descriptors import TOO_MANY, descriptors
from entrepot.gateway.rocketmq.grpc.conversation import GrpcConversation
from entrepot.gateway.rocketmq.grpc.terms import GrpcTerms
from entrepot.gateway.transport.intake import tell_refusal

LAST_SECONDS: Final = 0.1
"""Time for connections to close behind the end of their calls, and for calls behind that of their connections."""


class GrpcServer:
    """All connections.  `name` is the listener's."""

    def __init__(self, terms: GrpcTerms, name: str) -> None:
        self._terms, self._name = terms, name
        self._conversations: set[GrpcConversation] = set()
        self._is_stopping = False
        self._all_gone: asyncio.Future[None] | None = None

    def converse(self) -> GrpcConversation:
        return GrpcConversation(self._terms, self)

    def opened(self, conversation: GrpcConversation) -> str | None:
        """Note an open connection; return the reason to refuse it, or None."""
        self._conversations.add(conversation)
        if self._is_stopping:
            return "the server is shutting down"
        if descriptors().are_scarce:
            tell_refusal(self._name, TOO_MANY, conversation.source.host)
            return TOO_MANY
        return None

    def closed(self, conversation: GrpcConversation) -> None:
        """Note the end of a connection."""
        self._conversations.discard(conversation)
        if self._all_gone is not None and not (self._conversations or self._all_gone.done()):
            self._all_gone.set_result(None)

    async def drain(self, seconds: float) -> None:
        """Take no more calls; those under way have `seconds` to end."""
        self._is_stopping = True
        for conversation in tuple(self._conversations):
            conversation.shut_down()
        await self._gone(seconds)
        for conversation in tuple(self._conversations):
            conversation.end()
        await self._gone(LAST_SECONDS)
        if self._terms.tasks:  # calls that were cancelled give back what they hold
            await asyncio.wait(tuple(self._terms.tasks), timeout=LAST_SECONDS)

    async def _gone(self, seconds: float) -> None:
        """Wait until no connection is there, for a while at most."""
        if self._conversations:
            self._all_gone = self._terms.loop.create_future()
            await asyncio.wait((self._all_gone,), timeout=seconds)
