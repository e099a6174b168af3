"""The log that one test sets up is gone before the next one."""

from __future__ import annotations

import io
import logging

import pytest
import structlog

from entrepot.gateway.log import LogHandler, configure_logging

pytestmark = pytest.mark.xdist_group("own_log")


def of_ours() -> list[logging.Handler]:
    return [each for each in logging.getLogger().handlers if isinstance(each, LogHandler)]


def test_a_log_is_set_up() -> None:
    configure_logging(stream=io.StringIO())
    assert of_ours()
    assert structlog.is_configured()


def test_the_log_of_the_test_before_is_gone() -> None:
    assert not of_ours()
    assert not structlog.is_configured()
