"""The lock file of serving: all that it needs, with hashes, in the versions that everything is tested with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.support.cases import cases

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = re.compile(
    r"^([a-z0-9._-]+)==([^ ;\\]+)(?: ; [^\\]+)?((?: \\\n    --hash=sha256:[0-9a-f]{64})*)$", re.MULTILINE
)


def normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package."""
    found = PACKAGE.findall((ROOT / "requirements.lock").read_text())
    return {normal(name): (version, hashes.count("--hash=")) for name, version, hashes in found}


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {normal(line.split("==")[0]): line.split("==")[1] for line in lines if "==" in line and line[0] != "#"}


def test_each_package_has_hashes_and_the_tested_version() -> None:
    found, versions = locked(), pinned()
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert len(found) == sum(not line.startswith((" ", "#")) for line in lines if line) > 40
    assert [name for name, (_, hashes) in found.items() if not hashes] == []
    assert {name: version for name, (version, _) in found.items() if versions.get(name) != version} == {}


@cases("extra", ["", "etcd"])
def test_all_that_serving_asks_for_is_locked(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    names = [normal(re.split(r"[\[<>=!~; ]", each)[0]) for each in wanted]
    assert names and set(names) <= set(locked())


def test_it_names_no_registry() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert not re.search(r"https?://|--index-url|--find-links|--trusted-host", text)
