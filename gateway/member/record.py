"""Records of members in the key-values.

| key                    | value                                                                    |
|------------------------|--------------------------------------------------------------------------|
| `gateway/<member>`     | decimal: end of its lease, epoch milliseconds; `DECLARED_DEAD`: it is over |
| `peer/<member>`        | JSON, `MemberRecord`: how others show and reach it                        |
| `gateway-sweeper`      | MessagePack: the member that sweeps, and until when                       |

`<member>` is an incarnation (`identity.py`).  A lease changes every two seconds, and is looked at by the one that
sweeps.  A record changes with its gateway, and all members follow it.  So they are two keys: to follow the leases of a
hundred gateways would cost each of them fifty events a second.
"""

from __future__ import annotations

from typing import Final

import msgspec

from entrepot.domain.key_value import KeyValue

LEASE_PREFIX: Final = "gateway/"
RECORD_PREFIX: Final = "peer/"
SWEEPER_KEY: Final = "gateway-sweeper"
DECLARED_DEAD: Final = b"0"
"""Lease of a gateway that has left, or that the sweeper takes for dead; the key is deleted later."""


class MemberRecord(msgspec.Struct, frozen=True):
    """A gateway as others know it.  `address`: host:port of its listener for them."""

    name: str
    address: str
    version: str
    started_ms: int
    is_tls: bool = False


def decode_record(value: bytes) -> MemberRecord:
    """Read a record.  Raises ValueError."""
    try:
        return msgspec.json.decode(value, type=MemberRecord)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None


encode_record: Final = msgspec.json.encode


def lease_end(value: bytes) -> int | None:
    """Return the end of a lease in epoch milliseconds; None for a value that is not one."""
    return int(value) if value.isdigit() else None


class SweeperRecord(msgspec.Struct, array_like=True, frozen=True):
    """The member that sweeps, and the end of its lease in epoch milliseconds."""

    incarnation: str = ""
    until_ms: int = 0


def sweeper_of(found: KeyValue | None) -> SweeperRecord:
    """Return who sweeps; nobody, where there is no record.  Raises msgspec.DecodeError."""
    return SweeperRecord() if found is None else msgspec.msgpack.decode(found.value, type=SweeperRecord)
