"""The start: members that are too old or too small are refused, in words for operators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.store_client.etcd import EtcdSettings, open_etcd
from entrepot.store_client.etcd.calls import STATUS, TRANSACTION
from entrepot.store_client.etcd.opening import is_fit
from tests.support.cases import cases
from tests.support.etcd.server import EtcdServer, EtcdState, Fault
from tests.support.processes.ports import free_port
from tests.unit.etcd.conftest import ROOT, Open

AWAY = Fault(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")


@cases(
    "version, fits",
    [
        ("3.4.23", False),
        ("3.4.99", False),
        ("3.5.17", False),
        ("3.5.18", True),
        ("3.5.28", True),
        ("3.6.0", True),
        ("3.6.8", True),
        ("3.7.0-rc.1", True),
        ("4.0.0", True),
        ("", False),
        ("unknown", False),
    ],
)
def test_versions(version: str, fits: bool):
    assert is_fit(version) is fits


async def test_an_old_member_is_refused(state: EtcdState, opened: Open):
    state.version = "3.5.17"
    with pytest.raises(EntrepotError, match="etcd 3.5.17 at .* cannot be used: 3.5.18 or later") as refused:  # noqa: RUF043
        await opened()
    assert refused.value.code is Code.BAD_REQUEST


async def test_a_member_of_few_operations_is_refused(state: EtcdState, opened: Open):
    state.max_operations = 128
    with pytest.raises(EntrepotError, match=r"too many operations .*--max-txn-ops 10000") as refused:
        await opened()
    assert refused.value.code is Code.BAD_REQUEST


async def test_the_check_changes_nothing(state: EtcdState, opened: Open):
    await opened()
    assert (state.revision, state.keys) == (1, {})


async def test_one_member_that_answers_is_enough(server: EtcdServer, second: EtcdServer, opened: Open):
    second.fail(STATUS, AWAY)
    key_values = await opened(server, second)
    assert await key_values.get(["a"]) == [None]


async def test_a_start_waits_for_a_member(server: EtcdServer, opened: Open):
    server.fail(STATUS, AWAY, AWAY)
    server.fail(TRANSACTION, AWAY)
    await opened()


async def test_a_start_without_members_ends():
    nobody = EtcdSettings((f"127.0.0.1:{free_port()}",), ROOT, patience_seconds=0.0)
    with pytest.raises(EntrepotError, match="failed to connect") as refused:
        await open_etcd(nobody)
    assert refused.value.code is Code.UNAVAILABLE


@cases(
    "others, words",
    [
        ({"certificate": Path("c")}, "belong together"),
        ({"ca": Path("not there")}, "cannot be read"),
    ],
    ids=["no key", "no file"],
)
async def test_files_of_tls(opened: Open, others: dict[str, Any], words: str):
    with pytest.raises(EntrepotError, match=words) as refused:
        await opened(**others)
    assert refused.value.code is Code.BAD_REQUEST


async def test_a_member_that_tells_root_alone_is_new_enough(server: EtcdServer, opened: Open):
    server.fail(STATUS, Fault(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied"))
    await opened()
