"""OtherMembers: the gateways of the cluster as this one knows them, by their records.

Being silent and having lost the lease are two facts.  A gateway that answers no question may still have its lease: it
is shown as silent, for as long as it lives.  One whose lease is over has lost what it held; its record goes after a
long silence, so that operators see what is missing.

Invariant: a gateway that is alive, and can be asked, has a record: if another deleted it, it writes it again.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog
from msgspec import structs

from entrepot.domain.background import background
from entrepot.domain.clock import Clock
from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.gateway.key_values.watched_table import WatchedTable
from entrepot.gateway.member.identity import Identity
from entrepot.gateway.member.record import RECORD_PREFIX, MemberRecord, decode_record, encode_record
from entrepot.gateway.member.sweeping import OtherLeases

FORGET_SECONDS: Final = 600.0
"""Silence after which the record of a gateway without a lease is deleted."""

log = structlog.get_logger(__name__)


class OtherMembers:
    """The table of members; `own` is this gateway's record, which without an address stays unwritten."""

    def __init__(
        self, key_values: KeyValues, clock: Clock, identity: Identity, leases: OtherLeases, own: MemberRecord
    ) -> None:
        self._clock, self._identity, self._leases, self.own = clock, identity, leases, own
        self._table: WatchedTable[MemberRecord] = WatchedTable(key_values, RECORD_PREFIX, decode_record, encode_record)
        self._table.on_change.append(self._changed)
        self._silent_since: dict[str, int] = {}
        self._rewriting: asyncio.Task[None] | None = None
        self._is_here = False
        self._former: set[str] = set()
        """Incarnations before, whose records are to go."""
        identity.on_renewed.append(self._renewed)

    # -- who is there --------------------------------------------------------------------------------------------

    @property
    def own_id(self) -> str:
        """This gateway's incarnation."""
        return self._identity.incarnation

    def others(self) -> list[tuple[str, MemberRecord]]:
        """Return (incarnation, record) of every other gateway that can be asked, in the order of names."""
        found = [(member, record) for member, record in self._table.items() if member != self.own_id]
        return sorted(found, key=lambda each: (each[1].name, each[0]))

    @property
    def is_first(self) -> bool:
        """True for the one gateway, of those that answer, with the lowest id: it does what one is enough for."""
        return all(self.own_id < member for member, _ in self.others() if member not in self._silent_since)

    def silent_ms(self, member: str) -> int:
        """Return the milliseconds since a gateway first failed to answer; 0: it answers."""
        since = self._silent_since.get(member)
        return 0 if since is None else max(self._clock.now_ms() - since, 1)

    def note_answer(self, member: str, *, is_silent: bool = False) -> None:
        """Note that a gateway has answered a question, or has not."""
        if is_silent:
            self._silent_since.setdefault(member, self._clock.now_ms())
        else:
            self._silent_since.pop(member, None)

    def reachable_at(self, address: str, *, is_tls: bool) -> None:
        """Have others ask this gateway at host:port, once `start` is called."""
        self.own = structs.replace(self.own, address=address, is_tls=is_tls)

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self, wait_seconds: float) -> bool:
        """Follow the others, and be known to them if this gateway can be asked.  Return False for a store without
        key-values: there are no others."""
        if not await self._table.start(wait_seconds):
            return False
        self._is_here = bool(self.own.address)
        if self._is_here:
            await self._write_again()
        return True

    def close(self) -> list[KeyValueChange]:
        """Follow the others no more; return the change by which they forget this gateway at once."""
        was_here, self._is_here = self._is_here, False
        if self._rewriting is not None:
            self._rewriting.cancel()
        self._table.close()
        return [self._table.change(each, None) for each in (self.own_id, *self._former)] if was_here else []

    def _changed(self, member: str, before: MemberRecord | None, now: MemberRecord | None) -> None:
        if now is not None:
            return
        self._silent_since.pop(member, None)
        if member == self.own_id and before is not None:
            self._rewrite()

    def _renewed(self, before: str) -> None:
        if self._is_here:
            self._former.add(before)
            self._rewrite()

    def _rewrite(self) -> None:
        if self._is_here and self._rewriting is None:
            self._rewriting = background().start("record of this gateway", self._write_again())

    async def _write_again(self) -> None:
        """Write this gateway's record: at the start, under a new incarnation, and after another deleted it."""
        try:
            await self._write()
            while self._former:
                await self._write()
        except EntrepotError as error:
            log.warning("this gateway cannot be made known yet", problem=error.message)
        finally:
            self._rewriting = None

    async def _write(self) -> None:
        former = sorted(self._former)
        forgotten = [self._table.change(each, None) for each in former]
        await self._table.write([self._table.change(self.own_id, self.own), *forgotten])
        self._former.difference_update(former)

    async def keep(self) -> None:
        """Write this gateway's record if it is not there; delete those of gateways that are silent for long, and have
        no lease.  Raises what the store raises."""
        if self._is_here and (self._former or self._table.get(self.own_id) is None):
            await self._write()
        silent = [member for member, _ in self.others() if self.silent_ms(member) > FORGET_SECONDS * 1000]
        for member in await self._leases.gone(silent) if silent else ():
            change = self._table.change(member, None, self._table.version(member))
            await if_unchanged(self._table.write([change]))
