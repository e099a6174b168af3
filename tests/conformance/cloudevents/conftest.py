"""Each file has servers of its own."""

from __future__ import annotations

import pytest

from tests.support.processes.one_worker import keep_file_together


def pytest_itemcollected(item: pytest.Item) -> None:
    keep_file_together(item)
