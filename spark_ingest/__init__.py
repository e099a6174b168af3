"""Spark reads topics as tables, and writes tables to topics.

ADR 24: Spark reads by offset. Invariant: the server loads nothing of this package.

For jobs of your own: call `prepare_java` before the session is made, or `open_session` in its place. Both load Spark,
so they are imported on demand.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from entrepot.spark_ingest.session import open_session, prepare_java

__all__ = ["open_session", "prepare_java"]

_PLACES: Final = dict.fromkeys(__all__, "entrepot.spark_ingest.session")


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
