"""Paths of the dashboard."""

from __future__ import annotations

from typing import Final

ROOT: Final = "/"
DASHBOARD: Final = "/dashboard"
DASHBOARD_FILES: Final = "/dashboard/{file:path}"
