"""Hashes of passwords at the least cost: tests define many users.  Their usual cost is for `tests/unit/security`."""

from __future__ import annotations

from typing import Any, Final

CHEAP_HASHES: Final[dict[str, Any]] = {"argon2_memory_bytes": 65_536, "argon2_iterations": 1, "scram_iterations": 4096}
"""Of `SecuritySettings`."""
CHEAP_FLAGS: Final = {f"security.{name}": str(value) for name, value in CHEAP_HASHES.items()}
"""The same for a server's `--set`."""
