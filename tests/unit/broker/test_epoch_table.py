"""The starts of masters: each is known once, and the latest is last, whatever a recovery met behind the applied log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.broker.store.epoch_table import EpochTable
from entrepot.domain.replication.epochs import BEGINNING, EpochStart, read_epoch


def start(epoch: int) -> EpochStart:
    return read_epoch(EpochStart(epoch, 1, 0).payload(), 100 * epoch)


@given(met=st.integers(0, 4), applied_before=st.integers(0, 4), later=st.integers(0, 4))
def test_what_recovery_met_is_not_told_again_once_it_is_applied(met: int, applied_before: int, later: int) -> None:
    """A former master that was restarted, follows, and is master again: an epoch of before must not be its last."""
    table = EpochTable(ChangedRows(), lambda started: None)
    for epoch in range(1, applied_before + 1):
        table.apply(start(epoch).payload(), 100 * epoch, 0)
    known = applied_before + met
    table.written = [start(epoch) for epoch in range(applied_before + 1, known + 1)]
    for epoch in range(applied_before + 1, known + later + 1):
        assert [each.epoch for each in table.history()] == [0, *range(1, max(known, epoch - 1) + 1)]
        table.apply(start(epoch).payload(), 100 * epoch, 0)
        assert table.history()[0] == BEGINNING
    assert [each.epoch for each in table.history()] == [0, *range(1, known + later + 1)]
