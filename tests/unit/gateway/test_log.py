"""The log: one form for structlog's and the standard library's, on the stream it is given."""

import io
import json
import logging

import pytest
import structlog

from gateway.log import configure_logging


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
