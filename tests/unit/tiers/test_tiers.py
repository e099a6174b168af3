"""Which tests a tier has, what becomes of one that is too long, and what a slice leaves out."""

from __future__ import annotations

import pytest

from tests.support.soak_table import Figures
from tests.tiers import budget
from tests.tiers.budget import BUDGET_SECONDS, LONG_TESTS, MAX_LONG_TESTS, excess
from tests.tiers.run import plain
from tests.tiers.soak import table

SUITE = """
    import pytest
    from hypothesis import given, strategies
    from hypothesis.stateful import RuleBasedStateMachine, rule
    from tests.tiers.marks import interop_only, scaled, soak_only

    ROUNDS = scaled(2, 10)

    @pytest.fixture(params=["embedded", soak_only("remote")])
    def store(request):
        return request.param

    def test_plain(): pass
    @pytest.mark.soak
    def test_long(): pass
    @pytest.mark.interop
    def test_foreign(): pass
    @pytest.mark.scaled
    def test_scaled(): assert ROUNDS in (2, 10)
    def test_store(store): pass
    @pytest.mark.everywhere
    def test_every_store(store): pass
    @pytest.mark.interop
    def test_foreign_and_store(store): pass
    @pytest.mark.parametrize("client", ["own", interop_only("theirs")], ids=["O", "T"])
    def test_client(client): pass
    @given(strategies.integers())
    def test_property(number): pass
    class Machine(RuleBasedStateMachine):
        @rule()
        def step(self): pass
    TestMachine = Machine.TestCase
"""
IN_DEFAULT = {
    "test_plain", "test_scaled", "test_store[embedded]", "test_every_store[embedded]", "test_every_store[remote]",
    "test_client[O]", "test_property", "runTest",
}  # fmt: skip
IN_INTEROP = {"test_foreign", "test_foreign_and_store[embedded]", "test_client[T]"}
IN_SOAK = {
    "test_long", "test_scaled", "test_store[remote]", "test_every_store[remote]", "test_foreign_and_store[remote]",
    "test_property", "runTest",
}  # fmt: skip


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest("""
        from hypothesis import settings
        settings.register_profile("soak", max_examples=5)
        pytest_plugins = ("tests.tiers.plugin",)
    """)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(test_suite=SUITE)
    return pytester


def ran(suite: pytest.Pytester, *flags: str) -> list[str]:
    shown = suite.runpytest_inprocess("-v", "-p", "no:cacheprovider", *flags).stdout.str()
    assert "FAILED" not in shown, shown
    return [line.split(" ")[0].split("::")[-1] for line in shown.splitlines() if "PASSED" in line]


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        ("default", IN_DEFAULT),
        ("interop", IN_INTEROP),
        ("soak", IN_SOAK),
        ("rest", IN_INTEROP | IN_SOAK),
    ],
)
def test_each_tier_has_its_tests(suite: pytest.Pytester, tier: str, expected: set[str]) -> None:
    assert set(ran(suite, "--tier", tier)) == expected


def test_together_they_have_all(suite: pytest.Pytester) -> None:
    assert set(ran(suite, "--tier", "all")) == IN_DEFAULT | IN_INTEROP | IN_SOAK


def test_an_order_is_kept_and_others_are_others(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.tiers.plugin",)')
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    for number in range(8):
        (pytester.path / f"test_{number}.py").write_text(f"def test_{number}(): pass\ndef test_x{number}(): pass\n")
    first, again, other = (ran(pytester, "--order", order) for order in ("a", "a", "b"))
    assert first == again != other
    assert sorted(first) == sorted(other)
    files = [name[-1] for name in first]
    assert files[::2] == files[1::2], "the tests of a file stay together"


def test_what_does_not_begin_in_time_is_left_out(suite: pytest.Pytester) -> None:
    assert ran(suite, "--for-seconds", "0.0001") == []
    assert ran(suite, "--for-seconds", "600")


def test_a_test_over_its_budget_is_told_where_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "_slowness_under_load", lambda: 2.0)
    assert excess("tests/a.py::test_b[c]", "call", BUDGET_SECONDS) is None
    assert excess("tests/a.py::test_b[c]", "call", 2 * BUDGET_SECONDS) is None, "a slow machine has more time"
    told = excess("tests/a.py::test_b[c]", "call", 2 * BUDGET_SECONDS + 0.1)
    assert told is not None
    assert "tests/a.py::test_b belongs in the soak tier" in told
    monkeypatch.setitem(LONG_TESTS, "tests/a.py::test_b", "as the test says")
    assert excess("tests/a.py::test_b[c]@cluster", "call", 60) is None


def test_a_test_over_its_budget_fails(suite: pytest.Pytester) -> None:
    with pytest.MonkeyPatch.context() as patch:  # this test's own budget is as it was when it ends
        patch.setattr(budget, "_slowness_under_load", lambda: 1.0)
        patch.setattr(budget, "BUDGET_SECONDS", -1.0)
        done = suite.runpytest_inprocess("-k", "plain", "-p", "no:cacheprovider")
    assert "belongs in the soak tier" in done.stdout.str(), done.stdout.str()
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "_slowness_under_load", lambda: 1.0)
        patch.setattr(budget, "BUDGET_SECONDS", -1.0)
        alone = suite.runpytest_inprocess("-k", "plain", "-p", "no:cacheprovider", "--any-length")
    assert alone.ret == pytest.ExitCode.OK


def test_what_tests_share_is_not_counted(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.tiers.plugin",)')
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile("""
        import time, pytest
        @pytest.fixture(scope="module")
        def below(): time.sleep(0.2)
        @pytest.fixture(scope="module")
        def shared(below, request): time.sleep(0.2)
        @pytest.fixture
        def own(): time.sleep(0.2)
        def test_shared(shared): pass
        def test_own(shared, own): pass
    """)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "_slowness_under_load", lambda: 1.0)
        patch.setattr(budget, "BUDGET_SECONDS", 0.15)
        shown = pytester.runpytest_inprocess("-p", "no:cacheprovider").stdout.str()
    assert "ERROR at setup of test_own" in shown, shown
    assert "test_shared" not in shown.partition("short test summary")[2], shown


def test_only_a_few_may_be_long() -> None:
    assert len(LONG_TESTS) <= MAX_LONG_TESTS


def test_a_group_is_no_part_of_a_name() -> None:
    assert plain("a.py::test[x]@cluster") == "a.py::test[x]"
    assert plain("a.py::test[x@y]") == "a.py::test[x@y]"
    assert plain("a.py::test[x@y]@rocketmq gateways") == "a.py::test[x@y]"
    assert plain("a.py::test@amqp-separate") == "a.py::test"
    assert plain("a.py::test") == "a.py::test"


def test_the_table_has_the_sums_of_all_rounds() -> None:
    told = [Figures("kills", 2, 100, faults=3), Figures("storm", 1, 50, duplicated=1), Figures("kills", 1, 10, lost=1)]
    lines = [line.split() for line in table(told).splitlines() if line]
    assert lines == [
        ["test", "rounds", "messages", "lost", "phantom", "duplicated", "faults"],
        ["kills", "3", "110", "1", "0", "0", "3"],
        ["storm", "1", "50", "0", "0", "1", "0"],
        ["all", "4", "160", "1", "0", "1", "3"],
    ]
