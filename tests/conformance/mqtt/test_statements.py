"""There are no gaps: every statement that binds a server has a case or a named test that exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.conformance.mqtt import report, statements_5, statements_311
from tests.conformance.mqtt.all_cases import BY_NAME
from tests.conformance.mqtt.statement import BOTH, CLIENT, SERVER, Statement
from tests.conformance.mqtt.traps import TRAPS
from tests.support.cases import cases

ROOT = Path(__file__).resolve().parents[3]
OF = {"5.0": statements_5.STATEMENTS, "3.1.1": statements_311.STATEMENTS}

COUNTS = {
    "5.0": {"1": 5, "2": 7, "3": 175, "4": 60, "6": 4},
    "3.1.1": {"1": 3, "2": 9, "3": 95, "4": 26, "6": 4, "7": 4},
}
"""How many statements each chapter has in appendix B."""


@pytest.mark.parametrize("version", OF)
def test_every_statement_is_listed_once(version: str) -> None:
    numbers = [statement.number for statement in OF[version]]
    assert [number for number, times in Counter(numbers).items() if times > 1] == []
    assert Counter(number[0] for number in numbers) == COUNTS[version]


@pytest.mark.parametrize("version", OF)
def test_no_server_statement_without_a_proof(version: str) -> None:
    assert gaps(OF[version], report.proofs(version)) == []


@pytest.mark.parametrize("version", OF)
def test_cases_name_statements_that_exist(version: str) -> None:
    known = {statement.number for statement in OF[version]}
    assert set(report.proofs(version)) - known == set()


@cases("test", sorted({test for statements in OF.values() for one in statements for test in one.tests}))
def test_named_tests_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), test


def test_every_case_proves_a_statement() -> None:
    assert [case.name for case in BY_NAME.values() if not case.five and not case.four] == []


def test_traps_are_covered() -> None:
    assert len(TRAPS) == 40
    assert [name for names in TRAPS.values() for name in names if name not in BY_NAME] == []


def test_the_page_is_up_to_date() -> None:
    assert report.PAGE.read_text(encoding="utf-8") == report.page(), "run python -m tests.conformance.mqtt.report"


def test_a_gap_would_be_found() -> None:
    statements = (Statement("9.9.9-1", SERVER, ""), Statement("9.9.9-2", CLIENT, ""), Statement("9.9.9-3", BOTH, ""))
    assert gaps(statements, {"9.9.9-3": []}) == ["9.9.9-1"]


def gaps(statements: Sequence[Statement], proofs: Mapping[str, object]) -> list[str]:
    """The statements that bind a server and have nothing behind them."""
    binding = [one for one in statements if one.binds.server and not one.tests]
    return [one.number for one in binding if one.number not in proofs]
