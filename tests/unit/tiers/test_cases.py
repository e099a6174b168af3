"""Loops over cases report each failure by its name, and nothing that fails is passed over."""

from __future__ import annotations

import pytest

SUITE = """
    from tests.support.cases import cases

    @cases("a, b", [(1, 1), (1, 2), (3, 3), (3, 4)])
    def test_same(a, b, tmp_path):
        assert a == b

    @cases("a", [1, 2])
    @cases("b", ["x", "y"])
    async def test_product(a, b):
        assert (a, b) != (2, "y")

    @cases("word", ["skipped", "told"], ids=str.upper)
    def test_skips(word):
        if word == "skipped":
            import pytest
            pytest.skip("not here")

    @cases("number", range(3))
    def test_good(number):
        assert number < 3
"""


def outcome(pytester: pytest.Pytester, *flags: str) -> str:
    pytester.makeconftest('pytest_plugins = ("tests.tiers.plugin",)')
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_loops=SUITE)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", *flags).stdout.str()


@pytest.mark.parametrize("flags", [(), ("-n1",)], ids=["here", "worker"])
def test_each_failure_is_told_by_its_name_and_fails_the_test(pytester: pytest.Pytester, flags: tuple[str]) -> None:
    text = outcome(pytester, *flags)
    for name in ("1-2", "3-4", "y-2"):
        assert f"[{name}] ___" in text, text
    assert "2 of 4 cases failed: 1-2, 3-4" in text, text
    assert "1 of 4 cases failed: y-2" in text, text
    assert "FAILED test_loops.py::test_same" in text and "FAILED test_loops.py::test_product" in text, text


def test_one_case_can_be_run_alone(pytester: pytest.Pytester) -> None:
    text = outcome(pytester, "--case", "3-4", "-k", "same")
    assert "1 of 4 cases failed: 3-4" in text, text
    assert "[1-2] ___" not in text, text
    assert "1 passed" in outcome(pytester, "--case", "y-1", "-k", "product")
    assert "no case has 'nowhere' in its name" in outcome(pytester, "--case", "nowhere", "-k", "good", "-rs")
