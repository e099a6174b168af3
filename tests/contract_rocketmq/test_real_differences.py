"""The list of what Apache RocketMQ does not pass names tests that there are."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.contract_rocketmq.real_differences import DIFFERENT, LEFT_OUT
from tests.contract_rocketmq.table import FILE, page
from tests.e2e import rocketmq_exceptions as doors


def test_every_difference_is_of_a_carried_test():
    for listed in (DIFFERENT, LEFT_OUT):
        for module, reasons in listed.items():
            there = vars(import_module(f"tests.contract_rocketmq.test_shared_{module}"))
            assert not reasons.keys() - there.keys(), module


def test_a_test_is_listed_once():
    for module, reasons in LEFT_OUT.items():
        assert not reasons.keys() & DIFFERENT.get(module, {}).keys(), module


def test_the_table_of_the_docs_is_that_of_the_tests():
    text = (Path(__file__).resolve().parents[2] / "docs" / FILE).read_text(encoding="utf-8")
    assert page(text) == text, "make docs"


def test_every_exception_is_of_a_test_of_a_door():
    folder = Path(__file__).resolve().parents[1] / "e2e"
    for listed in (doors.DIFFERENT, doors.LEFT_OUT):
        for file, reasons in listed.items():
            text = (folder / f"{file}.py").read_text(encoding="utf-8")
            missing = [name for name in reasons if name != doors.ALL and f"def {name.partition(':')[0]}(" not in text]
            assert not missing, f"{file}: {missing}"
            if listed is doors.LEFT_OUT:
                assert not reasons.keys() & doors.DIFFERENT.get(file, {}).keys(), file
