"""The benchmarks' own arithmetic and their small client: what they say must be what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import engine, engine_work, facts, growth
from benchmarks.__main__ import parsed
from benchmarks.engine_places import Sent
from benchmarks.engine_work import Figures
from benchmarks.mqtt_workloads import QUICK_SECONDS, RUN_SECONDS, WORKLOADS, chosen
from benchmarks.processes import BenchmarkError
from benchmarks.report import Report
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


def test_engine_is_asked_for_by_name_with_its_seconds_and_workloads() -> None:
    asked = parsed(["engine", "--warm-up", "2.5", "--only", "pull", "--quick"])
    assert (asked.names, asked.warm_up, asked.only, asked.quick) == (["engine"], 2.5, "pull", True)
    assert [each.name for each in engine_work.workloads(asked.only)] == ["pull"]
    assert [each.name for each in engine_work.workloads("fan")] == ["fan-in", "fan-out"]
    assert engine_work.workloads(None) == list(engine_work.WORKLOADS)


@pytest.mark.parametrize("arguments", [["engines"], ["engine", "--warm-up", "0"], ["engine", "--warm-up", "soon"]])
def test_what_no_benchmark_takes_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        parsed(arguments)
    assert refused.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


@pytest.mark.parametrize(("per_cpu", "verdict"), [(870.0, "met"), (860.0, "missed")])
def test_a_door_of_rocketmq_is_judged_by_the_cpu_of_its_gateway(per_cpu: float, verdict: str) -> None:
    found = engine.Found([Figures(50, per_cpu), Figures(1, 1), Figures(99, 9999)], [Figures(200, 1000.0)])
    report = Report("engine", "title", "our broker", own="RocketMQ")
    engine.add_workload(report, "work", found)
    engine.add_client(report, "ASYNC_FLUSH", [Sent.of("3000 1500000000 250000000\n")])
    cpu, rate, client_cpu, client_rate = report.rows
    assert (cpu.ours, cpu.theirs, cpu.verdict()) == (per_cpu, 1000.0, verdict)
    assert (rate.ours, rate.theirs, rate.ratio, rate.verdict()) == (50, 200, 0.25, "")
    assert (client_cpu.ours, client_rate.ours) == (12_000, 2_000)
    assert report.columns()[2:5] == ["RocketMQ", "our broker", "ratio"]


def test_a_run_that_failed_has_no_figure_and_a_note() -> None:
    report = Report("engine", "title")
    engine.add_workload(report, "work", engine.Found([], [Figures(1, 1)], ["a gateway: 3 messages are lost"]))
    assert [(row.ours, row.ratio, row.verdict()) for row in report.rows] == [(None, None, "")] * 2
    assert report.notes == ["work: a gateway: 3 messages are lost"]
    for line in ("failed no route\n", ""):
        with pytest.raises(BenchmarkError, match="no route" if line else "has ended"):
            Sent.of(line)


def test_writes_together_are_beside_one_call_each() -> None:
    sides, report = facts.Sides(), Report("facts", "")
    for writes in (100, 300, 1000):
        sides.found[facts.TOGETHER].append(facts.Figures(2 * writes, 2.0, 0.02, 0.04))
        sides.found[facts.APART].append(facts.Figures(writes, 2.0, 0.03, 0.03))
    sides.add_to(report, "1 member")
    found = [(row.what, row.ours, row.theirs, round(row.ratio or 0, 2)) for row in report.rows]
    assert found[0] == ("1 member", 300.0, 150.0, 2.0)
    assert [ratio for *_, ratio in found] == [2.0, 0.33, 0.67]
