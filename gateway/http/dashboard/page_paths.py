"""Paths of the dashboard."""

from __future__ import annotations

from typing import Final

ROOT: Final = "/"
DASHBOARD: Final = "/dashboard"
DASHBOARD_FILES: Final = "/dashboard/{file:path}"
OPERATIONS_FILE: Final = "operations.json"
"""The one file that is made: the hints of all operations."""
