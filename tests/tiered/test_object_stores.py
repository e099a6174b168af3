"""The contract of object stores, over each kind of them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.object_paths import MAX_OBJECT_BYTES, MAX_PATH_BYTES, MAX_RANGES
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore, TierError
from entrepot.broker.tiered.opening_store import open_objects
from entrepot.domain.errors import Code
from tests.support.cases import cases
from tests.support.seed import seeded
from tests.tiers.marks import scaled

WRITERS = 8


def paths(store: ObjectStore, prefix: str = "") -> list[str]:
    return [each.path for each in store.objects(prefix)]


def test_what_is_put_is_read(store: ObjectStore) -> None:
    body = seeded("put").randbytes(100_000)
    assert store.put_new("a/b c/é+%41=1.parquet", body)
    assert store.get("a/b c/é+%41=1.parquet") == body
    assert store.size("a/b c/é+%41=1.parquet") == len(body)
    assert paths(store) == ["a/b c/é+%41=1.parquet"]


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    assert store.put_new("none", b"")
    assert store.get("none") == b"" and store.size("none") == 0
    assert store.get_ranges("none", [(0, 0)]) == [b""]


def test_the_first_writer_wins(store: ObjectStore) -> None:
    assert store.put_new("log/0.json", b"one")
    assert not store.put_new("log/0.json", b"two")
    assert store.get("log/0.json") == b"one"


def test_a_replaced_object_is_the_last_one(store: ObjectStore) -> None:
    store.replace("a/hint", b"first")
    assert store.get("a/hint") == b"first"
    store.replace("a/hint", b"the second")
    assert store.get("a/hint") == b"the second" and store.size("a/hint") == len(b"the second")
    assert not store.put_new("a/hint", b"third") and paths(store) == ["a/hint"]


def test_readers_of_a_replaced_object_find_one_of_them(store: ObjectStore) -> None:
    store.replace("hint", b"0")
    found: list[bytes] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            found.append(store.get("hint"))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 50):
            store.replace("hint", b"%d" % number)
    finally:
        is_over.set()
        reader.join()
    assert found == sorted(found, key=int) and reader.is_alive() is False


def test_a_large_object_is_put_once_too(store: ObjectStore) -> None:
    """Larger than a client's part of an upload: those are not refused where there is an object."""
    body = bytes(12 << 20)
    assert store.put_new("large", body)
    assert not store.put_new("large", body + b"!")
    assert store.size("large") == len(body)


def test_of_writers_at_once_one_wins(store: ObjectStore) -> None:
    won: list[int] = []
    start = threading.Barrier(WRITERS)

    def write(number: int) -> None:
        start.wait()
        if store.put_new("race", b"%d" % number):
            won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(won) == 1
    assert store.get("race") == b"%d" % won[0]


def test_parts_are_read_in_the_order_they_are_asked_for(store: ObjectStore) -> None:
    body = seeded("parts").randbytes(2_000_000)
    store.put_new("parts", body)
    wanted = [(1_999_990, 2_000_000), (0, 4), (2, 8), (500_000, 500_000), (1_000_000, 1_300_000), (0, 2_000_000)]
    assert store.get_ranges("parts", wanted) == [body[start:end] for start, end in wanted]
    assert store.get_ranges("parts", []) == []


@cases("wanted", [[(0, 11)], [(10, 11)], [(20, 30)], [(0, 5), (5, 9), (12, 20)], [(0, 1), (900_000, 900_001)]])
def test_an_object_that_ends_before_a_part_is_an_error(store: ObjectStore, wanted: list[tuple[int, int]]) -> None:
    store.put_new("ten", bytes(10))
    with pytest.raises(TierError, match="ends before") as refused:
        store.get_ranges("ten", wanted)
    assert refused.value.code is Code.COLD_CORRUPTED, "to ask again does not help"


@cases("wanted", [[(-1, 3)], [(3, 2)], [(0, 1)] * (MAX_RANGES + 1), [(0, MAX_OBJECT_BYTES + 1)]])
def test_parts_that_are_none_are_refused(store: ObjectStore, wanted: list[tuple[int, int]]) -> None:
    store.put_new("ten", bytes(10))
    with pytest.raises(TierError):
        store.get_ranges("ten", wanted)


def test_what_is_not_there_is_missing(store: ObjectStore) -> None:
    store.put_new("a/b/c", b"")
    for path in ("x", "a/x", "a/b"):
        for ask in (store.get, store.size, lambda path: store.get_ranges(path, [(0, 1), (900_000, 900_001)])):
            with pytest.raises(MissingObjectError) as raised:
                ask(path)
            assert raised.value.path == path
    with pytest.raises(MissingObjectError):
        store.get_ranges("x", [(0, 0)])
    assert paths(store, "x") == paths(store, "x/y") == []


def test_deleting_takes_what_is_there(store: ObjectStore) -> None:
    for path in ("a/1", "a/2", "b/1", "c"):
        store.put_new(path, b"x")
    store.delete(["a/1", "never", "a/never", "never/there", "b/1"])
    assert paths(store) == ["a/2", "c"]
    store.delete([])
    store.delete(["a/1"])
    assert store.put_new("a/1", b"again") and store.get("a/1") == b"again"


def test_lists_are_in_the_order_of_paths(store: ObjectStore) -> None:
    """A directory's place is that of its name with "/": `a-b` comes before `a/1`, which a walk gets wrong."""
    names = ["a-b", "a/1", "a/10", "a/2", "a.b/1", "a0", "b/c/d/e", "b/c.d", "é", "_log/0001", "_log/0002", "_log/0012"]
    for name in names:
        store.put_new(name, b"12345")
    assert paths(store) == sorted(names)
    for prefix in ("a", "a/", "a/1", "b/c", "b/c/", "_log/000", "_log/0012", "_log/.x", "z", "a/..", "."):
        assert paths(store, prefix) == sorted(each for each in names if each.startswith(prefix)), prefix
    found = next(iter(store.objects("a/1")))
    assert found.size == 5 and found.modified_ms > 1_600_000_000_000


PATHS = st.lists(st.text("ab-./0é", min_size=1, max_size=3), min_size=1, max_size=3).map("/".join)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.sets(PATHS, max_size=8), prefix=PATHS)
def test_stores_list_alike(tmp_path_factory: pytest.TempPathFactory, wanted: set[str], prefix: str) -> None:
    stores = [open_objects("memory://"), FolderStore(tmp_path_factory.mktemp("folder"))]
    kept: list[str] = []
    for path in sorted(wanted):
        if any(path.startswith(f"{each}/") for each in kept):
            continue  # a folder has no object below an object
        try:
            results = {store.put_new(path, b"") for store in stores}
        except TierError:
            for store in stores:
                with pytest.raises(TierError):
                    store.put_new(path, b"")
        else:
            assert results == {True}
            kept.append(path)
    for asked in ("", prefix):
        try:
            first = paths(stores[0], asked)
        except TierError:
            with pytest.raises(TierError):
                paths(stores[1], asked)
        else:
            assert first == paths(stores[1], asked) == sorted(each for each in kept if each.startswith(asked))


@cases(
    "path",
    [
        "",
        "/etc/passwd",
        "..",
        "../x",
        "a/../../x",
        "a/./b",
        "a//b",
        "a/",
        "a\0b",
        "a\nb",
        "a\ud800",
        "x" * 256,
        "/".join(["x" * 100] * 11),
    ],
)
def test_paths_that_leave_the_store_are_refused(store: ObjectStore, path: str) -> None:
    for ask in (
        lambda: store.put_new(path, b""),
        lambda: store.get(path),
        lambda: store.size(path),
        lambda: store.get_ranges(path, [(0, 1)]),
        lambda: store.delete([path]),
    ):
        with pytest.raises(TierError, match="not an object's path"):
            ask()
    assert paths(store) == []


def test_the_longest_path_is_one(store: ObjectStore) -> None:
    """Less what a prefix of the bucket takes of it."""
    path = "/".join(["x" * 200] * 5)[: MAX_PATH_BYTES - 40]
    assert store.put_new(path, b"x")
    assert paths(store) == [path]


def test_what_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    with open(tmp_path / "large", "wb") as file:
        file.truncate(MAX_OBJECT_BYTES + 1)
    with pytest.raises(TierError, match="are stored or read whole"):
        store.get("large")
    assert store.get_ranges("large", [(MAX_OBJECT_BYTES - 1, MAX_OBJECT_BYTES + 1)]) == [bytes(2)]


def test_no_reader_sees_half_an_object(store: ObjectStore) -> None:
    """Readers look while objects are put: each is whole, or not there."""
    body = bytes(scaled(300_000, 3_000_000))
    count = scaled(5, 30)
    over = threading.Event()
    wrong: list[str] = []

    def read() -> None:
        while not over.is_set():
            wrong.extend(each.path for each in store.objects("") if each.size != len(body))
            wrong.extend(path for path in paths(store) if len(store.get(path)) != len(body))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(count):
            assert store.put_new(f"part-{number}", body)
    finally:
        over.set()
        reader.join()
    assert wrong == [] and len(paths(store)) == count
