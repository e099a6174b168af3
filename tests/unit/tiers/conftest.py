"""These tests run pytest within pytest: what that chooses is not what the run around it has chosen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.tiers import marks


@pytest.fixture(autouse=True)
def run_around_it(pytestconfig: pytest.Config) -> Iterator[None]:
    soak = settings.get_profile("soak")
    yield
    settings.register_profile("soak", soak)
    marks.choose(pytestconfig.getoption("tier"))
    settings.load_profile(marks.scaled("default", "soak"))
