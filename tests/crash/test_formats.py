"""Data directories as released versions wrote them: what was in them is there, and what they promised holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.store.store_files import FORMAT
from entrepot.domain.errors import Code, StoreFailedError
from entrepot.domain.names import TRACE_TOPIC
from tests.fixtures.make_store import main, read_back, settings_of
from tests.support.clock import ManualClock

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
FORMATS = sorted(FIXTURES.glob("store-format-*"))


def test_there_are_fixtures():
    assert FIXTURES / "store-format-2" in FORMATS


@pytest.mark.parametrize("ending", ["clean", "killed"])
@pytest.mark.parametrize("fixture", FORMATS, ids=lambda path: path.name)
async def test_a_store_of_a_released_format(tmp_path: Path, fixture: Path, ending: str):
    await check(fixture, ending, tmp_path)


async def test_a_store_of_this_format(tmp_path: Path):
    main(tmp_path / "made")
    for ending in ("clean", "killed"):
        await check(tmp_path / "made", ending, tmp_path / ending)


async def check(fixture: Path, ending: str, scratch: Path) -> None:
    expected = json.loads((fixture / "expected.json").read_text())
    clock = ManualClock(expected["now_ms"])
    directory = scratch / "data"
    shutil.copytree(fixture / ending, directory)
    given = expected[ending].pop("handles")
    for _ in range(2):  # the second time as this version left it
        store = await Broker.open(settings_of(directory), clock)
        assert store.engine.report.was_unclean == (ending == "killed")
        try:
            check_equal(await read_back(store), expected[ending])
        finally:
            await store.close()
        ending_of_next = "clean"
        expected[ending_of_next], ending = expected[ending], ending_of_next
    identity = json.loads((directory / "store.json").read_text())
    assert identity["format"] == FORMAT
    store = await Broker.open(settings_of(directory), clock)
    for one in given:
        [outcome] = await store.consumption.acknowledge(one["topic"], one["group"], [one["handle"]])
        wanted = None if one["is_current"] else Code.INVALID_RECEIPT_HANDLE
        assert (outcome and outcome.code) == wanted, one
    await store.close()


def check_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """What was written then; of definitions, what they had then."""
    for name, what in expected.items():
        if name in ("topics", "groups"):
            assert found[name].keys() == what.keys()
            for key, definition in what.items():
                assert {field: found[name][key][field] for field in definition} == definition
        elif name == "messages":
            assert {
                key: each[: len(what.get(key, each))] if key.startswith(TRACE_TOPIC) else each
                for key, each in found[name].items()
            } == what, "hops are written later, at the end at the latest"
        else:
            assert found[name] == what, name


@pytest.mark.parametrize("number", [1, FORMAT + 1])
async def test_a_store_of_another_format_is_refused_and_left_alone(tmp_path: Path, number: int):
    shutil.copytree(FORMATS[0] / "clean", tmp_path / "data")
    identity = tmp_path / "data" / "store.json"
    known = json.loads(identity.read_text())
    identity.write_text(json.dumps({**{name: known[name] for name in ("store_id", "handle_key")}, "format": number}))
    before = identity.read_bytes()
    with pytest.raises(StoreFailedError, match=f"store format {number}; this version reads {FORMAT}"):
        await Broker.open(settings_of(tmp_path / "data"), ManualClock())
    assert identity.read_bytes() == before
