"""A run of a load on a real store: how far it is, which master answers, and the judgement."""

from __future__ import annotations

from collections import Counter
from typing import Final

from entrepot.store_client.remote.store import RemoteStore
from tests.history.checker import check, report
from tests.history.load import Load
from tests.history.operations import Outcome
from tests.history.recorder import Recorder
from tests.support.soak_table import tell
from tests.support.waiting import until

OPERATIONS_BETWEEN: Final = 200
"""Confirmed operations between two faults."""


def mastership(store: RemoteStore) -> object:
    """Another one with each master that the gateway knows; None while it knows none."""
    ready = store.cluster.ready
    return ready[0].link if ready else None


async def progress(load: Load, recorder: Recorder) -> None:
    """Return when more operations were confirmed."""
    wanted = _confirmed(recorder) + OPERATIONS_BETWEEN

    def is_reached() -> bool:
        load.check()
        return _confirmed(recorder) >= wanted

    await until(is_reached, "operations are confirmed")


def _confirmed(recorder: Recorder) -> int:
    return sum(each.is_ok for each in recorder.operations)


def judge(name: str, recorder: Recorder, faults: int) -> None:
    """Fail where the history is not allowed; its file is named then."""
    violations = check(recorder.operations)
    outcomes = Counter(each.outcome for each in recorder.operations)
    rules = Counter(each.rule for each in violations)
    tell(
        name,
        messages=len(recorder.operations),
        lost=rules["lost"],
        phantom=rules["phantom"],
        duplicated=rules["stored twice"] + rules["handed out twice"] + rules["acknowledged and popped"],
        faults=faults,
    )
    print(f"{outcomes[Outcome.OK]} ok, {outcomes[Outcome.FAILED]} failed, {outcomes[Outcome.UNKNOWN]} unknown")
    assert not violations, report(violations, recorder.path)
