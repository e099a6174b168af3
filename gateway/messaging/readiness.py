"""If a gateway takes and confirms messages: one answer for every way to ask for it."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.domain.ports import Store
from entrepot.domain.ports.cluster import control_of


def reason_unready(store: Store, is_ready: Callable[[], bool]) -> str:
    """Return the reason why a gateway takes and confirms no messages; empty where it does."""
    failure, control = store.condition.failure, control_of(store)
    if failure is not None:
        return failure.message
    if not is_ready():
        return "the server is starting or stopping"
    if control is not None and not control.is_available:
        return "no broker is available"
    return "" if control is None else control.confirm_problem
