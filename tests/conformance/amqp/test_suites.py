"""A handful of each published suite passes on our server, and the recorded results leave nothing without a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.amqp import fetched, results, servers
from tests.conformance.amqp.outcome import of_go, of_junit
from tests.conformance.amqp.playing import play
from tests.conformance.amqp.suite_differences import DIFFERENCES
from tests.conformance.amqp.suites import SUITES, Suite


@pytest.mark.interop
@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_handful_passes(suite: Suite, tmp_path: Path) -> None:
    if why := fetched.missing(suite):
        pytest.skip(why)
    with servers.start("entrepot", tmp_path) as ports:
        played = play(suite, ports, tmp_path, suite.quick)
    assert played.failed == {}, (tmp_path / "output").read_text(errors="replace")[-4000:]
    assert played.passed


def test_what_passes_on_rabbitmq_and_not_here_has_a_reason() -> None:
    assert results.unexplained() == []


def test_no_reason_is_left_over() -> None:
    worse = {(suite.name, test) for suite in SUITES for test in results.worse(suite)}
    assert [test for one in DIFFERENCES for test in one.tests if (one.suite, test) not in worse] == []


def test_every_suite_has_results_of_its_version() -> None:
    assert [suite.name for suite in SUITES for server in servers.NAMES if results.kept(suite, server) is None] == []


def test_outcome_of_junit(tmp_path: Path) -> None:
    written = tmp_path / "junit.xml"
    written.write_text(
        '<testsuites><testsuite name="pytest">'
        '<testcase classname="tests.test_a" name="test_good"/>'
        '<testcase classname="tests.test_a" name="test_bad"><failure message="assert 1\n == 2"/></testcase>'
        '<testcase classname="tests.test_a" name="test_left"><skipped message="no server"/></testcase>'
        '<testcase classname="tests.test_a" name="test_torn"/>'
        '<testcase classname="tests.test_a" name="test_torn"><error message="teardown"/></testcase>'
        "</testsuite></testsuites>"
    )
    found = of_junit(written)
    assert found.passed == ["tests.test_a::test_good"]
    assert found.skipped == {"tests.test_a::test_left": "no server"}
    assert found.failed == {"tests.test_a::test_bad": "assert 1 == 2", "tests.test_a::test_torn": "teardown"}
    assert found.collected == 4


def test_outcome_of_go() -> None:
    found = of_go(
        [
            "go: something before",
            '{"Action":"run","Test":"TestGood"}',
            '{"Action":"output","Test":"TestGood","Output":"=== RUN   TestGood\\n"}',
            '{"Action":"pass","Test":"TestGood"}',
            '{"Action":"output","Test":"TestBad","Output":"    a_test.go:1: it is bad\\n"}',
            '{"Action":"fail","Test":"TestBad"}',
            '{"Action":"output","Test":"TestLeft","Output":"    a_test.go:2: no server\\n"}',
            '{"Action":"skip","Test":"TestLeft"}',
            '{"Action":"output","Test":"TestHangs","Output":"=== RUN   TestHangs\\n"}',
            '{"Action":"fail","Package":"of all"}',
        ]
    )
    assert found.passed == ["TestGood"]
    assert found.skipped == {"TestLeft": "a_test.go:2: no server"}
    assert found.failed == {"TestBad": "a_test.go:1: it is bad", "TestHangs": "did not end"}
