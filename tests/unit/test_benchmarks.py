"""The benchmarks' own arithmetic and their small client: what they say must be what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.mqtt_workloads import QUICK_SECONDS, RUN_SECONDS, WORKLOADS, chosen
from benchmarks.processes import BenchmarkError
from benchmarks.sessions import take_publishes

CONNACK = b"\x20\x02\x01\x00"


def publish(identifier: int, payload: bytes) -> bytes:
    body = b"\x00\x03a/b" + identifier.to_bytes(2, "big") + payload
    length = bytes((len(body),)) if len(body) < 128 else bytes((len(body) & 0x7F | 0x80, len(body) >> 7))
    return b"\x32" + length + body


def test_a_name_chooses_itself_and_a_beginning_chooses_all() -> None:
    assert [each.name for each in chosen("w1d")] == ["W1d"]
    assert [each.name for each in chosen("W4")] == ["W4q0", "W4q1"]
    assert chosen("W99") == []
    assert len(chosen(None)) == len(WORKLOADS)


def test_every_workload_ends() -> None:
    assert [each.name for each in WORKLOADS if not each.ends and not each.probe] == []


def test_a_run_is_sized_by_what_took_longest() -> None:
    (workload,) = chosen("W4q0")
    probed = {"pub_s": 0.01, "del_s": 0.5}
    assert int(workload.sized_command(probed, quick=False)[-1]) == workload.probe * RUN_SECONDS / 0.5
    assert int(workload.sized_command(probed, quick=True)[-1]) == workload.probe * QUICK_SECONDS / 0.5


def test_packets_are_taken_whole_wherever_they_are_cut() -> None:
    stream = CONNACK + publish(1, b"x" * 10) + publish(2, b"y" * 200) + publish(515, b"")
    for cut in range(1, len(stream)):
        data = bytearray(stream[:cut])
        found = take_publishes(data)
        data += stream[cut:]
        found += take_publishes(data)
        assert found == [b"\x00\x01", b"\x00\x02", b"\x02\x03"], cut
        assert not data


def test_a_session_that_was_not_resumed_is_no_figure() -> None:
    with pytest.raises(BenchmarkError, match="not resumed"):
        take_publishes(bytearray(b"\x20\x02\x00\x00"))


def test_growth_is_named_by_the_ratio_of_its_ends() -> None:
    assert [growth.shape_of(1, large, 100) for large in (0.5, 2, 3.9, 100, 200, 201)] == [
        "flat", "flat", "logarithmic", "linear", "linear", "more than linear",
    ]  # fmt: skip
    assert growth.shape_of(0, 5, 100) == ""


def test_the_table_of_growth_goes_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "scale.md"
    page.write_text(f"head\n{growth.BEGIN}\nold\n{growth.END}\ntail\n")
    points = [growth.Point("topics", "publish", "us", size, value) for size, value in ((100, 10.0), (10_000, 15.0))]
    points.insert(1, growth.Point("topics", "publish", "us", 1000, 1234.5))
    growth.update_page(page, growth.table_of(points))
    row = "| topics (100, 1,000, 10,000) | publish | us | 10 | 1,234 | 15 | flat |"
    assert page.read_text().splitlines() == ["head", growth.BEGIN, *growth.table_of(points).splitlines()[:2], row,
                                             growth.END, "tail"]  # fmt: skip
    for mark in (growth.BEGIN, growth.END):
        assert mark in growth.PAGE.read_text()
