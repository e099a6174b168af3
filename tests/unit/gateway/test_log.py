"""The log: one form for structlog's and the standard library's, on the stream it is given."""

import io
import json
import logging
from typing import Any

import pytest
import structlog

from entrepot.gateway.log import configure_logging, lost_lines
from entrepot.gateway.log_floods import BURST, MAX_KINDS, FloodProcessor, Floods
from tests.support.processes.terminal import acting_on_a_terminal
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _put_back():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_json_lines():
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    structlog.get_logger().info("listening", door="mqtt", port=1883)
    structlog.get_logger().debug("not told")
    logging.getLogger("uvicorn.error").warning("%s is slow", "it")
    try:
        raise ValueError("bang")
    except ValueError:
        structlog.get_logger().exception("failed", path=object)
    first, second, third = map(json.loads, stream.getvalue().splitlines())
    assert {"event": "listening", "level": "info", "door": "mqtt", "port": 1883}.items() <= first.items()
    assert {"event": "it is slow", "level": "warning", "logger": "uvicorn.error"}.items() <= second.items()
    assert "ValueError: bang" in third["exception"]
    assert all(line["timestamp"].endswith("Z") for line in (first, second, third))


def test_console_lines():
    stream = io.StringIO()
    configure_logging("warning", "console", stream)
    structlog.get_logger().info("not told")
    structlog.get_logger().warning("slow", door="http")
    logging.getLogger("asyncio").error("broken")
    slow, broken = stream.getvalue().splitlines()
    assert "slow" in slow and "door=http" in slow and "\x1b" not in slow
    assert "broken" in broken


def test_setting_up_again_replaces():
    for _ in range(2):
        stream = io.StringIO()
        configure_logging("info", "json", stream)
    logging.getLogger("x").info("once")
    assert len(stream.getvalue().splitlines()) == 1


HOSTILE = "x\x1b[31m\x9b\u202e\n2026-01-01T00:00:00Z [info     ] forged"


def log_hostile_things() -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        structlog.get_logger().exception("failed", client=HOSTILE, path=HOSTILE.encode(), given={HOSTILE: [HOSTILE]})
        structlog.get_logger().warning("told", problem=error, **{HOSTILE: "a name"})
        logging.getLogger("uvicorn.error").exception("%s is gone", HOSTILE)
    structlog.get_logger().info("surrogates", name="\udcff\ud800")


def test_nothing_of_a_value_acts_on_the_console_or_forges_a_line():
    stream = io.StringIO()
    configure_logging("info", "console", stream)
    log_hostile_things()
    text = stream.getvalue()
    assert acting_on_a_terminal(text) == ""
    assert r"\x1b[31m" in text and r"\u202e" in text and r"\udcff\ud800" in text and "Traceback" in text
    assert [line for line in text.splitlines() if line.startswith("2026-01-01")] == []
    assert sum("] " in line and not line.startswith("  ") for line in text.splitlines()) == 4  # four events


def test_json_lines_stay_json_and_act_on_nothing():
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    log_hostile_things()
    assert acting_on_a_terminal(stream.getvalue()) == ""
    first, _, third, last = map(json.loads, stream.getvalue().splitlines())
    assert first["client"] == HOSTILE and first["given"] == {HOSTILE: [HOSTILE]}
    assert third["event"] == f"{HOSTILE} is gone" and last["name"] == "\udcff\ud800"


def test_a_flood_of_lines() -> None:
    """A burst of each kind, then one a second with the number of those left out; other lines go out as ever."""
    now = [0.0]
    processor = FloodProcessor(Floods(lambda: now[0]))

    def told(kind: str | None) -> dict[str, Any] | None:
        event: dict[str, Any] = {"event": "closed"} if kind is None else {"event": "closed", "seldom": kind}
        try:
            return dict(processor(None, "info", event))
        except structlog.DropEvent:
            return None

    assert [told("a") for _ in range(BURST)] == [{"event": "closed"}] * BURST
    assert [told("a") for _ in range(30)] == [None] * 30
    assert told("b") == {"event": "closed"}
    assert [told(None) for _ in range(100)] == [{"event": "closed"}] * 100
    now[0] = 1.0
    assert told("a") == {"event": "closed", "suppressed": 30}
    assert told("a") is None
    now[0] = 1000.0
    assert told("a") == {"event": "closed", "suppressed": 1}
    assert [told("a") for _ in range(BURST)] == [{"event": "closed"}] * (BURST - 1) + [None]


def test_kinds_are_bounded() -> None:
    floods = Floods()
    for number in range(3 * MAX_KINDS):
        floods.allows(("closed", str(number)))
    assert len(floods._kinds) == MAX_KINDS


async def test_what_nothing_follows_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.gateway.log_floods.REST_SECONDS", 0.001)
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    for _ in range(BURST + 7):
        structlog.get_logger().warning("refused", seldom="a", peer="x")
    await until(lambda: len(stream.getvalue().splitlines()) > BURST, "the rest is told")
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert {"event": "refused", "level": "warning", "kind": "a", "suppressed": 7}.items() <= last.items()


def test_a_flood_of_the_standard_librarys_lines() -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    for number in range(BURST + 7):
        logging.getLogger("uvicorn.error").warning("Invalid request of %d", number)
    assert len(stream.getvalue().splitlines()) == BURST


class Bad:
    """A value whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_value_that_cannot_be_shown_raises_into_nobody(form: Any) -> None:
    stream = io.StringIO()
    configure_logging("info", form, stream)
    circle: list[Any] = []
    circle.append(circle)
    log = structlog.get_logger()
    log.warning("value", given=Bad())
    log.warning("circle", given=circle)
    log.info("name", **{"\udcff": Bad()})
    log.info("%d", "not a number")
    log.info("kind", seldom=Bad())
    log.critical(Bad())
    log.debug("not told", given=Bad())
    logging.getLogger("x").error("%d lines", "many")
    logging.getLogger("x").error("%s", Bad())
    logging.getLogger("x").error(Bad())
    lines = stream.getvalue().splitlines()
    assert len(lines) == 9, stream.getvalue()
    assert lost_lines() == 0
    for line, word in zip(lines, ("value", "circle", "name", "%d", "kind", "", "%d lines", "%s", ""), strict=True):
        assert word in line
    if form == "json":
        assert [json.loads(line)["level"] for line in lines] == ["warning"] * 2 + ["info"] * 3 + ["critical"] + [
            "error"
        ] * 3
        assert "RuntimeError" in json.loads(lines[4])["problem"]


class Failing(io.StringIO):
    """A stream that is full while `is_full`."""

    is_full = True

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.mark.parametrize("form", ["json", "console"])
def test_lines_that_were_lost_are_counted_and_told_in_the_form_of_the_log(form: Any) -> None:
    stream = Failing()
    configure_logging("info", form, stream)
    structlog.get_logger().info("one")
    logging.getLogger("x").error("two")
    structlog.get_logger().debug("none")
    assert lost_lines() == 2
    stream.is_full = False
    structlog.get_logger().info("three")
    told, third = stream.getvalue().splitlines()
    if form == "json":
        assert {"event": "lines were lost", "lost": 2, "level": "warning"}.items() <= json.loads(told).items()
        assert json.loads(told)["timestamp"].endswith("Z")
    else:
        assert "lines were lost" in told and "lost=2" in told and "warning" in told
    assert "three" in third
    assert lost_lines() == 2


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_every_level_from_the_least_on_goes_out(level: str) -> None:
    stream = io.StringIO()
    configure_logging(level, "json", stream)
    levels = ["debug", "info", "warning", "error", "critical"]
    for each in levels:
        getattr(structlog.get_logger(), each)("one", given=Bad())
        getattr(logging.getLogger("x"), each)("two")
    told = [json.loads(line)["level"] for line in stream.getvalue().splitlines()]
    assert told == [each for each in levels[levels.index(level) :] for _ in range(2)]


async def test_a_coroutine_logs_likewise() -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    await structlog.get_logger().ainfo("one", given=1)
    assert json.loads(stream.getvalue())["event"] == "one"
