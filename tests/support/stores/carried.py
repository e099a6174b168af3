"""The contract of every store, run again at a store that carries most of it."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def carried(module: ModuleType, but: dict[str, str]) -> dict[str, Any]:
    """Return every test and fixture of `module` but some, for a test module with fixtures of the same names."""
    missing = but.keys() - vars(module).keys()
    assert not missing, f"no tests of these names: {missing}"
    return {name: value for name, value in vars(module).items() if name not in but and not name.startswith("__")}
