"""Token: what a user with a password shows etcd.  It costs a member 130 ms of its CPU, so all calls share one."""

from __future__ import annotations

import asyncio
from typing import Final

from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import AUTHENTICATE, Broken, Member

NOT_ENABLED: Final = "authentication is not enabled"


class Token:
    """One user's token, asked for when it is missing or no longer valid."""

    def __init__(self, user: str, password: str, seconds: float) -> None:
        self._user, self._password, self._seconds = user, password, seconds
        self._known: str | None = None if user else ""
        self._asking = asyncio.Lock()

    @property
    def is_needed(self) -> bool:
        return bool(self._user)

    async def of(self, member: Member) -> str:
        """Return the token, asking the member if there is none.  Raises Broken."""
        if self._known is None:
            async with self._asking:
                if self._known is None:
                    self._known = await self._asked(member)
        return self._known

    def forget(self, token: str) -> None:
        """Ask anew before the next call, unless another call has already."""
        if self._user and token == self._known:
            self._known = None

    async def _asked(self, member: Member) -> str:
        question = pb.AuthenticateRequest(name=self._user, password=self._password)
        try:
            return (await member.ask(AUTHENTICATE, question, self._seconds, "")).token
        except Broken as refused:
            if NOT_ENABLED in refused.text:
                return ""  # until etcd asks for one
            raise
