"""BrokerIdentity: a broker's name and number, kept beside its store for as long as its data lives.

broker.json   {"name": ..., "number": ..., "keeps_key_values": true | false | null, "is_draining": false, "epoch": ...}

The number is part of every queue id of this broker that others know, so it never changes with the data.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from entrepot.broker.metadata.own_keys import OWN
from entrepot.broker.store.small_files import decode_json, put_durably
from entrepot.domain.broker_of_queue import MAX_BROKER_NUMBER, broker_number
from entrepot.domain.errors import StoreFailedError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues

FILE: Final = "broker.json"
GROUP_KEY: Final = f"{OWN}identity"
"""Key-value of a group's log with the same content."""


class BrokerIdentity(msgspec.Struct):
    """The identity. `keeps_key_values`: None until decided (`broker.server.registration`). `epoch`: of the last process
    that had it, in milliseconds; it only grows, whatever the clock does."""

    name: str
    number: int
    keeps_key_values: bool | None = None
    is_draining: bool = False
    epoch: int = 0

    def save(self, data_dir: Path) -> None:
        """Replace the file as a whole, durably."""
        put_durably(data_dir / FILE, msgspec.json.format(msgspec.json.encode(self), indent=2))


class KeptIdentity:
    """An identity with its stores: beside the data and, of a broker group, in the log too, so that the next master
    continues it. `key_values`: of a group's store."""

    def __init__(self, data_dir: Path, identity: BrokerIdentity, key_values: KeyValues | None) -> None:
        self.identity = identity
        self._data_dir, self._key_values = data_dir, key_values

    async def load(self) -> None:
        """Take over the identity in the group's log."""
        if self._key_values is None:
            return
        [found] = await self._key_values.get([GROUP_KEY])
        if found is not None:
            said = msgspec.json.decode(found.value, type=BrokerIdentity)
            self.identity.keeps_key_values, self.identity.is_draining = said.keeps_key_values, said.is_draining
        elif self.identity.keeps_key_values is not None:
            await self.save()  # from the time before it had replicas

    async def save(self) -> None:
        """Store it durably, in the file and in the group's log."""
        self.identity.save(self._data_dir)
        if self._key_values is not None:
            await self._key_values.write([KeyValueChange(GROUP_KEY, msgspec.json.encode(self.identity))])


def epoch_kept(data_dir: Path) -> int:
    """Return the epoch of the last process that had the directory; 0 if none had."""
    kept = identity_kept(data_dir)
    return 0 if kept is None else kept.epoch


def number_kept(data_dir: Path) -> int | None:
    """Return the number of a directory's broker; None if it was never reachable from elsewhere."""
    kept = identity_kept(data_dir)
    return None if kept is None else kept.number


def identity_kept(data_dir: Path) -> BrokerIdentity | None:
    """Return the identity beside a store, or None. Raises StoreFailedError where it cannot be read."""
    path = data_dir / FILE
    try:
        return decode_json(path.read_bytes(), BrokerIdentity) if path.exists() else None
    except msgspec.DecodeError as error:
        raise StoreFailedError(f"{path} cannot be read: {error}") from error


def open_identity(data_dir: Path, name: str, number: int | None) -> BrokerIdentity:
    """Return the identity of a data directory, made on first use. `number` None: the stored one, or that of the name.
    Raises StoreFailedError where the directory belongs to another broker."""
    found = identity_kept(data_dir)
    if found is not None:
        if found.name != name or number not in (None, found.number):
            wanted = f"{name!r}" if number is None else f"{name!r} with number {number}"
            raise StoreFailedError(
                f"{data_dir} has the data of broker {found.name!r} with number {found.number}, not of {wanted}"
            )
        return found
    number = broker_number(name) if number is None else number
    if not 0 <= number <= MAX_BROKER_NUMBER:
        raise StoreFailedError(f"a broker's number is 0 to {MAX_BROKER_NUMBER}, not {number}")
    identity = BrokerIdentity(name, number)
    identity.save(data_dir)
    return identity
