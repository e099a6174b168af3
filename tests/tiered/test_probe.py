"""The probe finds stores that lie, and leaves nothing behind."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.probe import RACERS, probe
from tests.support.seed import seeded
from tests.support.tiered.object_server import Answer, ObjectServer


def test_an_honest_store_passes(store: ObjectStore, tmp_path: Path) -> None:
    store.put_new("mine", b"kept")
    probe(store, seeded("probe"))
    probe(store, seeded("probe again"))
    assert [each.path for each in store.objects("")] == ["mine"]
    assert not list(tmp_path.rglob("_probe*"))


LIES: list[tuple[dict[str, Any], str]] = [
    ({"creates_over": True}, "second create .* two uploaders would overwrite each other"),
    ({"looks_first": threading.Barrier(RACERS)}, "6 creates of one object at once 6 succeeded; two uploaders"),
    ({"garbles": True}, "gives other bytes than were stored"),
    ({"stale_list": True}, "list does not show .* overlooked"),
    ({"unsorted_list": True}, "list in the order of paths"),
    ({"keeps_deleted": True}, "still has what was deleted"),
    ({"ignores_ranges": True}, "broke off its answer, or gave one that was not understood"),
    ({"always": Answer(403, "AccessDenied", method="GET")}, "not allowed to do this"),
    ({"always": Answer(405, "MethodNotAllowed", method="PUT")}, "read-only"),
]


@pytest.mark.parametrize(("lies", "said"), LIES, ids=[next(iter(lies)) for lies, _ in LIES])
def test_a_store_that_cannot_do_it_is_refused(
    server: ObjectServer, served_store: ObjectStore, lies: dict[str, Any], said: str
) -> None:
    for name, value in lies.items():
        setattr(server, name, value)
    with pytest.raises(TierError, match=said) as raised:
        probe(served_store, seeded("lies"))
    assert served_store.url in str(raised.value)
    assert server.found == {} or server.keeps_deleted


def test_a_lost_answer_is_no_lie(server: ObjectServer, served_store: ObjectStore) -> None:
    """The first create is done, and its answer lost: the client asks again, and is told that there is one."""
    server.faults.extend([Answer(503, after=True, method="PUT")] * 2)
    probe(served_store, seeded("lost"))
    assert not server.faults and server.found == {}
