"""The list of a table's files: small in memory, and equal to what plain objects would say."""

from __future__ import annotations

import string
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.tiered import checkpoints
from entrepot.broker.tiered.delta_actions import PARQUET, AddFile, Metadata, Protocol
from entrepot.broker.tiered.layered import MAX_LAYER
from entrepot.broker.tiered.packed_files import PackedFiles, packed, unpacked
from entrepot.broker.tiered.places import Place, Places
from entrepot.broker.tiered.segment import Run
from entrepot.broker.tiered.snapshot import Replay
from tests.support.seed import seeded

TEXTS = st.text(max_size=30)
MAPS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
FILES = st.builds(
    AddFile,
    st.text(string.ascii_letters, min_size=1),
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.booleans(),
    st.none() | TEXTS,
    st.none() | MAPS,
    MAPS,
)


@given(FILES)
def test_a_file_comes_back(file: AddFile) -> None:
    assert unpacked(file.path, packed(file)) == file


def test_numbers_of_another_program_that_are_none_do_no_harm() -> None:
    assert unpacked("a", packed(AddFile("a", -5, 2**70, True))) == AddFile("a", 0, 2**64 - 1, True)


def test_versions_are_what_dicts_would_be() -> None:
    """Over many changes, so that the common ground is copied now and then."""
    chance = seeded()
    plain: dict[str, AddFile] = {}
    files = PackedFiles.of({})
    for _ in range(3 * MAX_LAYER):
        before, was = files, dict(plain)
        changes: dict[str, AddFile | None] = {}
        for _ in range(chance.randint(1, 4)):
            path = f"{chance.randrange(400)}"
            changes[path] = None if chance.random() < 0.3 else AddFile(path, chance.randrange(10**6), 1, True)
        files = files.changed({path: None if file is None else packed(file) for path, file in changes.items()})
        for path, file in changes.items():
            if file is None:
                plain.pop(path, None)
            else:
                plain[path] = file
        assert len(files) == len(plain) and files.bytes == sum(file.size for file in plain.values())
        assert files.differences(before) == (plain.keys() - was.keys(), was.keys() - plain.keys())
        assert before.differences(files) == (was.keys() - plain.keys(), plain.keys() - was.keys())
    assert dict(files) == plain
    assert {each.path: each.size for each in files.sizes()} == {path: file.size for path, file in plain.items()}


def test_places_are_what_a_sorted_list_would_say() -> None:
    chance = seeded()
    places = Places()
    live: dict[str, list[Run]] = {}
    ends = {1: 0, 2: 0}
    for number in range(300):
        if live and chance.random() < 0.3:
            path = chance.choice(list(live))
            places.remove(live.pop(path), path)
        else:
            runs = [run_of(queue, ends, chance) for queue in chance.sample([1, 2], chance.randint(1, 2))]
            live[f"p{number}"] = runs
            places.add(runs, f"p{number}")
        check(places, live, chance)


def run_of(queue: int, ends: dict[int, int], chance: Random) -> Run:
    first = ends[queue]
    ends[queue] += chance.randint(1, 9)
    rows = 0 if chance.random() < 0.2 else chance.randint(1, ends[queue] - first)
    newest = chance.randrange(1000)
    return Run(queue, first, ends[queue], rows, (newest - 5, newest), 7)


def check(places: Places, live: dict[str, list[Run]], chance: Random) -> None:
    every = [(run, path) for path, runs in live.items() for run in runs]
    assert places.missing == sum(run.next_offset - run.first - run.rows for run, _ in every)
    for queue in (1, 2, 3):
        expected = sorted(
            (Place(run.first, run.next_offset, path, run.rows), run.times[1])
            for run, path in every
            if run.queue_id == queue
        )
        in_order = [place for place, _ in expected]
        assert list(places.all(queue)) == in_order
        offset, end = sorted(chance.sample(range(900), 2))
        before = [place for place in in_order if place.first <= offset]
        after = [place for place in in_order if place.first > offset]
        assert places.around(queue, offset) == (before[-1] if before else None, after[0] if after else None)
        within = [place for place in in_order if place.first < end and place.next_offset > offset]
        assert places.within(queue, offset, end) == within
        time_ms = chance.randrange(1000)
        since = [place.first for place, newest in expected if newest >= time_ms]
        assert places.first_since(queue, time_ms) == (since[0] if since else None)


def test_a_checkpoint_of_many_files_is_made_and_read_in_parts() -> None:
    count = 2 * checkpoints.BATCH_ROWS + 5
    metadata = Metadata(id="1", schema_string="{}", configuration={"a": "b"}, partition_columns=[], format=PARQUET)
    replay = Replay()
    files = [AddFile(f"{number}.parquet", number, 1, True, "{}", {"a": str(number)}) for number in range(count)]
    replay.begin(7, [Protocol(1, 2), metadata, *files])
    snapshot = replay.snapshot(5, "it")
    made = checkpoints.encode_checkpoint(snapshot, 0)
    sizes: list[int] = []
    found = checkpoints.decode_checkpoint(7, {"it": made.data}, 5, lambda some: sizes.append(len(list(some))))
    assert found == snapshot and found.files.bytes == sum(range(count))
    assert max(sizes) <= checkpoints.BATCH_ROWS and sum(sizes) == made.hint.size == count + 2
