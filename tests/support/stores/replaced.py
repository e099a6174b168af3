"""A port some of whose calls are a test's own."""

from __future__ import annotations

from typing import Any, TypeVar, cast

P = TypeVar("P")


class _Replaced:
    def __init__(self, port: object, calls: dict[str, Any]) -> None:
        self._port = port
        self.__dict__.update(calls)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


def replaced(port: P, **calls: Any) -> P:
    """The port with these calls instead of its own."""
    return cast("P", _Replaced(port, calls))
