"""A run keeps the folders of what failed, and those alone."""

from __future__ import annotations

import pytest

SUITE = """
    import pytest

    @pytest.fixture(scope="module")
    def server(tmp_path_factory):
        yield tmp_path_factory.mktemp("server")

    @pytest.fixture(scope="module")
    def site(tmp_path_factory, request):
        folder = tmp_path_factory.mktemp("site")
        request.getfixturevalue("server")
        yield folder
        assert folder.is_dir()

    @pytest.fixture
    def short(tmp_path_factory):
        yield tmp_path_factory.mktemp("short")

    def test_one(site, short, tmp_path): assert {passes}
    def test_two(site, server): assert site.is_dir() and server.is_dir() and not list(site.parent.glob("short0")){kept}
"""


def _left(pytester: pytest.Pytester, passes: bool) -> set[str]:
    pytester.makeini("[pytest]\ntmp_path_retention_policy = failed\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest('pytest_plugins = ("tests.tiers.folders",)')
    pytester.makepyfile(SUITE.format(passes=passes, kept="" if passes else " or True"))
    pytester.makepyfile(test_other="def test_other(): pass\ndef test_last(): pass")
    base = pytester.path / "made"
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", f"--basetemp={base}", "test_other.py", ".")
    result.assert_outcomes(passed=4 if passes else 3, failed=0 if passes else 1)
    return {folder.name for folder in base.iterdir() if folder.is_dir() and not folder.is_symlink()}


def test_folders_of_fixtures_go_with_their_fixtures(pytester: pytest.Pytester) -> None:
    assert _left(pytester, passes=True) == set()


def test_where_a_test_failed_the_folders_that_it_used_stay(pytester: pytest.Pytester) -> None:
    assert _left(pytester, passes=False) == {"server0", "site0", "short0", "test_one0"}
