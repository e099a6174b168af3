"""Opening of key-values in etcd: members that would break promises of the port are refused at the start."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import MAX_CHANGES
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd.calls import STATUS, TRANSACTION, Member
from entrepot.store_client.etcd.key_values import EtcdKeyValues
from entrepot.store_client.etcd.members import Members
from entrepot.store_client.etcd.refusals import Kind, Refusal
from entrepot.store_client.etcd.requests import LONGEST_SECONDS, MAX_REQUEST_BYTES, reads
from entrepot.store_client.etcd.settings import EtcdSettings

OLDEST: Final = (3, 5, 18)
"""Oldest version whose watches lose nothing after a compaction."""
FLAGS: Final = "--max-txn-ops 10000 --max-request-bytes 9437184"
RETRY_SECONDS: Final = 0.2
ROOM_BYTES: Final = 1_000
"""Bytes of a transaction around the key of its one read, at most."""
NEVER: Final = (1 << 62) - 1
"""A revision that no key ever has."""


async def open_etcd(settings: EtcdSettings) -> EtcdKeyValues:
    """Open key-values in etcd, once a member answers.  Raises BAD_REQUEST for members that are too old or have too
    small limits, FORBIDDEN for the user, and UNAVAILABLE."""
    members = Members(settings)
    try:
        await _check(members, settings)
        return EtcdKeyValues(settings, members)
    except BaseException:
        await members.close()
        raise


async def _check(members: Members, settings: EtcdSettings) -> None:
    """Check all members that answer; those that are away may come later."""
    loop = asyncio.get_running_loop()
    end = loop.time() + settings.patience_seconds
    while True:
        found = await asyncio.gather(*(_fault(members, member, settings) for member in members.all))
        faults = [fault for fault in found if fault is not None]
        for fault in faults:
            if fault.code is not Code.UNAVAILABLE:
                raise fault
        if len(faults) < len(found):
            return
        if loop.time() >= end:
            raise faults[0]
        await asyncio.sleep(RETRY_SECONDS)


async def _fault(members: Members, member: Member, settings: EtcdSettings) -> EntrepotError | None:
    return await _fault_of_version(members, member, settings) or await _fault_of_limits(members, member, settings)


async def _fault_of_version(members: Members, member: Member, settings: EtcdSettings) -> EntrepotError | None:
    answer = await members.ask_one(member, STATUS, pb.StatusRequest(), settings.request_seconds)
    if isinstance(answer, Refusal):
        # 3.6 and later tell root alone: who may not ask has such a member
        return None if "permission denied" in answer.text else _told(member, answer)
    if is_fit(answer.version):
        return None
    return EntrepotError(
        Code.BAD_REQUEST,
        f"etcd {answer.version} at {member.address} cannot be used: 3.5.18 or later of 3.5, or 3.6 and later are "
        "needed, since older ones may lose events",
    )


def is_fit(version: str) -> bool:
    """True for a version whose watches and deadlines hold what the port promises."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return found is not None and tuple(map(int, found.groups())) >= OLDEST


async def _fault_of_limits(members: Members, member: Member, settings: EtcdSettings) -> EntrepotError | None:
    """Send transactions of as many operations, and of as many bytes, as there may be."""
    root = settings.root.encode()
    for keys in ([root] * MAX_CHANGES, [root.ljust(MAX_REQUEST_BYTES - ROOM_BYTES, b"x")]):
        answer = await members.ask_one(member, TRANSACTION, _idle(root, keys), LONGEST_SECONDS)
        if not isinstance(answer, Refusal):
            continue
        if answer.code is Code.BAD_REQUEST:
            return EntrepotError(
                Code.BAD_REQUEST,
                f"etcd at {member.address} does not take the largest write ({answer.text}): start it with {FLAGS}",
            )
        return _told(member, answer)
    return None


def _idle(root: bytes, keys: Sequence[bytes]) -> pb.TxnRequest:
    """Return a transaction of reads on a condition that never holds: etcd checks it, and does nothing."""
    never = pb.Compare(key=root, target=pb.Compare.MOD, result=pb.Compare.EQUAL, mod_revision=NEVER)
    return pb.TxnRequest(compare=[never], success=reads(keys).success)


def _told(member: Member, refusal: Refusal) -> EntrepotError:
    away = refusal.kind in (Kind.ELSEWHERE, Kind.UNKNOWN)
    return EntrepotError(Code.UNAVAILABLE if away else refusal.code, f"etcd at {member.address}: {refusal.text[:300]}")
