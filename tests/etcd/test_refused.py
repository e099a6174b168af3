"""Refusals of the start, of a full database, and of strangers at etcd."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.protocols.etcd import rpc_pb2 as pb
from entrepot.store_client.etcd import open_etcd
from tests.etcd.conftest import settings_of
from tests.etcd.test_history import Seen
from tests.support.etcd.cluster import ALARM, DEFRAGMENT, EtcdCluster, Tls
from tests.support.processes.certificates import TestAuthority
from tests.support.stores.steps import refusal_of
from tests.support.waiting import until

pytestmark = pytest.mark.interop

MIB = 1 << 20


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"max-txn-ops": "128"}, "too many operations in txn request.*--max-txn-ops 10000"),
        ({"max-request-bytes": "1572864"}, "larger than max.*--max-request-bytes 9437184"),
    ],
    ids=["operations", "bytes"],
)
async def test_small_limits_are_refused_at_the_start(tmp_path: Path, flags: dict[str, str], words: str):
    with EtcdCluster(tmp_path, flags=flags) as cluster:
        with pytest.raises(EntrepotError, match=words) as refused:
            await open_etcd(settings_of(cluster))
        assert refused.value.code is Code.BAD_REQUEST


async def test_the_largest_writes(tmp_path: Path):
    with EtcdCluster(tmp_path) as cluster:
        store = await open_etcd(settings_of(cluster))
        try:
            await store.write([KeyValueChange(f"k{i}", bytes(MIB), ABSENT) for i in range(8)])
            await store.write([KeyValueChange(f"{i:05}".ljust(300, "x"), b"v", ABSENT) for i in range(10_000)])
            changes = [KeyValueChange(f"{i:05}".ljust(300, "x"), b"v", ABSENT) for i in range(9_990, 20_000 - 10)]
            with pytest.raises(
                EntrepotError, match=r"'09990x+' has version .*, the write expects to be absent"
            ) as refused:
                await store.write(changes[:10_000])
            assert refused.value.code is Code.PRECONDITION_FAILED
            keys = [f"{i:05}".ljust(1_000, "x") for i in range(10_000)]
            with pytest.raises(EntrepotError, match="not up to 9000000") as refused:
                await store.write([KeyValueChange(key, b"", ABSENT) for key in keys])
            assert refused.value.code is Code.BAD_REQUEST
            found = await store.get([f"{i:05}".ljust(300, "x") for i in range(250)])
            assert len({kept.version for kept in found if kept is not None}) == 1
        finally:
            await store.close()


@pytest.mark.failure(
    "The database of etcd reaches its quota",
    group="Operators' mistakes and maintenance",
    does="Writes of facts are refused; reads and deletions go on. Compact, defragment, then disarm the alarm.",
    lost="nothing",
    told="refusals: no room",
)
async def test_a_full_database_takes_deletions_alone(tmp_path: Path):
    with EtcdCluster(tmp_path, flags={"quota-backend-bytes": str(32 * MIB)}) as cluster:
        [member] = cluster.members
        store = await open_etcd(settings_of(cluster))
        try:
            await store.write([KeyValueChange("x", b"")])
            refused, version = None, 0
            while refused is None:
                try:
                    version = await store.write([KeyValueChange("y", bytes(MIB))])
                except EntrepotError as error:
                    refused = error
            assert refused.code is Code.STORAGE_FULL
            assert (await store.get(["y"]))[0] is not None
            await store.write([KeyValueChange("x", None)])
            alarms = member.ask(ALARM, pb.AlarmRequest()).alarms
            assert [alarm.alarm for alarm in alarms] == [pb.NOSPACE]
            cluster.compact(version)
            await asyncio.to_thread(member.ask, DEFRAGMENT, pb.DefragmentRequest())
            assert await refusal_of(store.write([KeyValueChange("z", b"")])) is Code.STORAGE_FULL
            for alarm in alarms:
                lifted = pb.AlarmRequest(action=pb.AlarmRequest.DEACTIVATE, memberID=alarm.memberID, alarm=alarm.alarm)
                member.ask(ALARM, lifted)
            await store.write([KeyValueChange("z", b"")])
        finally:
            await store.close()


async def test_a_user_with_a_password(tmp_path: Path):
    with EtcdCluster(tmp_path) as cluster:
        settings = settings_of(cluster, user="gateway", password="right", probe_seconds=0.3)
        cluster.enable_users(settings.root, gateway="right")
        store = await open_etcd(settings)
        try:
            seen = Seen(store)
            await store.write([KeyValueChange("a", b"1")])
            for stranger in (
                settings_of(cluster),
                settings_of(cluster, user="gateway", password="wrong"),
                settings_of(cluster, user="gateway", password="right"),
            ):
                assert await refusal_of(open_etcd(stranger)) is Code.FORBIDDEN, "nobody, or of another root"
            [member] = cluster.members
            member.kill()
            member.start()
            await asyncio.to_thread(cluster.wait_up, member)
            await store.write([KeyValueChange("a", b"2")])
            await until(lambda: seen.values == [b"1", b"2"], "the watch has a new token, too")
            assert seen.beginnings == 1
            await until(lambda: store.age_seconds() == 0.0, "it is current")
        finally:
            await store.close()


async def test_a_token_that_expires(tmp_path: Path):
    with EtcdCluster(tmp_path, flags={"auth-token-ttl": "1", "log-level": "debug"}) as cluster:
        [member] = cluster.members
        settings = settings_of(cluster, user="gateway", password="right", probe_seconds=600.0)
        cluster.enable_users(settings.root, gateway="right")
        store = await open_etcd(settings)
        try:
            seen = Seen(store)
            await store.write([KeyValueChange("a", b"1")])
            await until(lambda: member.says("deleted a simple token"), "nobody has used it for a while")
            await store.write([KeyValueChange("a", b"2")])
            await until(lambda: seen.values == [b"1", b"2"], "the watch outlives its token")
            assert seen.beginnings == 1
        finally:
            await store.close()


async def test_a_user_with_a_certificate(tmp_path: Path):
    authority = TestAuthority(tmp_path)
    shown = authority.issue("member", "127.0.0.1", common_name="root")
    own = authority.issue("gateway", "localhost", common_name="gateway")
    with EtcdCluster(tmp_path, tls=Tls(authority.file, shown, shown)) as cluster:
        settings = settings_of(cluster, ca=authority.file, certificate=own, key=own, patience_seconds=1.0)
        cluster.enable_users(settings.root, gateway="")
        store = await open_etcd(settings)
        try:
            seen = Seen(store)
            await store.write([KeyValueChange("a", b"1")])
            await until(lambda: seen.values == [b"1"], "it is told")
            (tmp_path / "other").mkdir()
            other = TestAuthority(tmp_path / "other")
            for wrong in (
                settings_of(cluster, patience_seconds=0.5),
                settings_of(cluster, ca=other.file, patience_seconds=0.5),
                settings_of(cluster, ca=authority.file, patience_seconds=0.5),
            ):
                assert await refusal_of(open_etcd(wrong)) is Code.UNAVAILABLE, "no TLS, no trust, no certificate"
        finally:
            await store.close()
