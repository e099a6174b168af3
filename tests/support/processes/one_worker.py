"""Tests that share a server are run by one worker: else each worker starts that server."""

from __future__ import annotations

import pytest


def keep_file_together(item: pytest.Item) -> None:
    """For pytest_itemcollected of a folder, which gets the folder's own tests: all of a file in one group."""
    item.add_marker(pytest.mark.xdist_group(item.path.stem))
