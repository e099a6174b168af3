"""A model store for a gateway with settings."""

from __future__ import annotations

from entrepot.domain.clock import Clock
from entrepot.gateway.settings import Settings
from tests.support.stores.model_store import MemoryStore


def model_store_of(settings: Settings, clock: Clock) -> MemoryStore:
    """The model store, with what the settings say of a real one."""
    kept = settings.store
    return MemoryStore(
        clock,
        max_message_bytes=kept.max_message_bytes,
        group_defaults=settings.groups.new_group("defaults"),
        hold_back_limit=kept.hold_back_messages,
        check_after_ms=int(kept.transaction_check_after_seconds * 1000),
        check_interval_ms=int(kept.transaction_check_interval_seconds * 1000),
        max_checks=kept.transaction_max_checks,
    )
