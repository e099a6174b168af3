"""Fields of JSON bodies as typed columns: what other programs read, how columns come about, and what never stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.settings.tier import Payload
from entrepot.broker.tiered.columns import delta_schema, to_messages
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.json_columns import MAX_CELLS, MISFIT, PART_ROWS, JsonColumns, _Part
from entrepot.broker.tiered.json_fields import MAX_FIELDS, fields_of
from entrepot.broker.tiered.merging import LEAST_SEGMENTS
from entrepot.broker.tiered.upload.uploader import FIRST_PAUSE
from entrepot.domain.message import Message, StoredMessage
from entrepot.protocols.wire.json_blocks import read_block
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.rows import rows_of
from tests.tiered.test_tier import QUEUES, TOPIC, all_uploaded, opened, root
from tests.tiered.uploads.model_broker import ModelTopic
from tests.tiered.uploads.test_uploader import MIDNIGHT, Bench, offsets


def rows(*bodies: Any) -> Any:
    """Rows with these bodies; what is no bytes is JSON."""
    made = [body if isinstance(body, bytes) else json.dumps(body).encode() for body in bodies]
    return rows_of([StoredMessage("t", body, queue_id=0, queue_offset=at) for at, body in enumerate(made)])


def typed(found: Any, schema: str = "", columns: JsonColumns | None = None) -> tuple[dict[str, list[Any]], str]:
    """The JSON columns of rows, with `flags`; and the schema."""
    made, after = (columns or JsonColumns()).typed(found, schema or delta_schema())
    assert to_messages(made) == to_messages(found), "the broker sees what it saw"
    shown = {name: made.column(name).to_pylist() for name in made.column_names if name.startswith("json_")}
    return {**shown, "flags": made.column("flags").to_pylist()}, after


def kinds(schema: str) -> dict[str, str]:
    return {field.name: field.kind for field in fields_of(schema).values()}


BODY = {"celsius": 20.5, "n": 3, "ok": True, "at": "2026-01-02T03:04:05Z", "pos": {"lat": 1.5, "deep": {"x": "y"}}}


def test_fields_are_columns_by_their_types() -> None:
    found, schema = typed(rows(BODY, {"n": None, "list": [1, {"a": 2}], "empty": {}}, b"no JSON", b"", b"[1]", b"{"))
    assert kinds(schema) == {
        "json_celsius": "double",
        "json_n": "long",
        "json_ok": "boolean",
        "json_at": "string",
        "json_pos_lat": "double",
        "json_pos_deep_x": "string",
        "json_list": "text",
    }
    assert found["json_at"][0] == "2026-01-02T03:04:05Z" and found["json_pos_lat"][0] == 1.5
    assert found["json_list"] == [None, '[1,{"a":2}]', None, None, None, None]
    assert found["flags"] == [0] * 6, "what is no object has no field that is missing"
    again, same = typed(rows(BODY), schema)
    assert same == schema and again["json_pos_deep_x"] == ["y"]


def test_a_type_never_changes_and_others_have_a_column_beside() -> None:
    _, schema = typed(rows({"n": 1, "x": 1, "s": "a", "b": True}, {"x": 1.5}))
    assert kinds(schema) == {"json_n": "long", "json_x": "double", "json_s": "string", "json_b": "boolean"}
    found, after = typed(
        rows(
            {"n": 2.5}, {"n": 7.0}, {"n": "1"}, {"x": 2}, {"s": 5}, {"b": 0}, {"n": 2**63}, {"x": 10**400}, {"n": [4]}
        ),
        schema,
    )
    assert kinds(after) == kinds(schema) | {
        "json_n__double": "double",
        "json_n__string": "string",
        "json_n__text": "text",
        "json_s__long": "long",
        "json_b__long": "long",
    }
    assert found["json_n"] == [None, 7, *[None] * 7]
    assert found["json_n__double"] == [2.5, *[None] * 5, 2.0**63, None, None]
    assert (found["json_n__string"][2], found["json_n__text"][8]) == ("1", "[4]")
    assert (found["json_x"][3], found["json_s__long"][4], found["json_b__long"][5]) == (2.0, 5, 0)
    assert [at for at, flags in enumerate(found["flags"]) if flags & MISFIT] == [7], "a number beyond doubles alone"
    again, same = typed(rows({"n": 3}, {"n": 4.5}, {"n": 2**53 + 1}, {"n": "x"}), after)
    assert same == after and again["json_n"] == [3, None, 2**53 + 1, None] and again["json_n__double"][1] == 4.5


def test_the_kind_of_most_values_is_that_of_the_column() -> None:
    found, schema = typed(rows({"n": "unknown"}, {"n": 1}, {"n": 2.5}, {"n": 3}))
    assert kinds(schema) == {"json_n": "double", "json_n__string": "string"}
    assert found["json_n"] == [None, 1.0, 2.5, 3.0] and found["json_n__string"] == ["unknown", None, None, None]
    assert not any(found["flags"])


def test_numbers_of_both_kinds_are_read_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = JsonColumns()
    _, schema = typed(rows({"n": 1}), "", columns)
    _, schema = typed(rows({"n": 1.5}), schema, columns)
    monkeypatch.setattr(_Part, "_one_by_one", lambda self, is_object: pytest.fail("a body was looked at by itself"))
    found, _ = typed(rows(*[{"n": 2}, {"n": 2.5}, {"m": None}, b"no JSON"] * 50), schema, columns)
    assert found["json_n"] == [2, None, None, None] * 50
    assert found["json_n__double"] == [None, 2.5, None, None] * 50
    monkeypatch.undo()
    found, _ = typed(rows({"n": 2**53 + 1}, {"n": 0.5}), schema, columns)
    assert found["json_n"] == [2**53 + 1, None], "a large one is exact"


@pytest.mark.parametrize("is_beside_first", [True, False])
def test_a_field_with_the_name_of_a_column_beside_is_no_part_of_it(is_beside_first: bool) -> None:
    """`n_.double` is `json_n__double`, too: who came first has the column, and the other one is flagged."""
    bodies: Any = [{"n": 1}, {"n": 2.5}, {"n": 3}], [{"n": 1, "n_": {"double": 0.5}}]
    first, second = bodies if is_beside_first else bodies[::-1]
    columns = JsonColumns()
    _, schema = typed(rows(*first[:1]), "", columns)
    _, schema = typed(rows(*first), schema, columns)
    found, after = typed(rows(*second, {"n": 4.5}, {"n": 5, "n_": {"double": 1.5}}), schema, columns)
    assert after == schema and kinds(schema) == {"json_n": "long", "json_n__double": "double"}
    of_field = [body.get("n_", {}).get("double") for body in [*second, {}, {"n_": {"double": 1.5}}]]
    beside = [*(body["n"] for body in second), 4.5, 5]
    for at, (own, number) in enumerate(zip(of_field, beside, strict=True)):
        kept = (number if number != int(number) else None) if is_beside_first else own
        assert found["json_n__double"][at] == kept
        lost = own is not None if is_beside_first else number != int(number)
        assert bool(found["flags"][at] & MISFIT) == lost


def test_columns_beside_count_and_end_with_the_cap() -> None:
    many = {f"f{number}": number for number in range(MAX_FIELDS - 1)}
    found, schema = typed(rows(many, {"f0": "x"}, {"f1": "y"}, {"f1": [1]}))
    assert len(kinds(schema)) == MAX_FIELDS
    assert [bool(flags & MISFIT) for flags in found["flags"]] == [False, False, True, True]


def test_names_differ_by_more_than_case() -> None:
    columns = JsonColumns()
    found, schema = typed(rows({"Temp": 1}, {"temp": 2}, {"TEMP": 3, "temp": 4}), "", columns)
    assert kinds(schema) == {"json_Temp": "long"} and found["json_Temp"][:2] == [1, 2]
    assert [bool(flags & MISFIT) for flags in found["flags"]] == [False, False, True]
    found, after = typed(rows({"a b;c": 1, "Temp": 5}, {"tEMP": 6}), schema, columns)
    assert set(kinds(after)) == {"json_Temp", "json_a_b_c"} and found["json_Temp"] == [5, 6]


def test_fields_beyond_the_cap_are_flagged() -> None:
    many = {f"f{number}": number for number in range(MAX_FIELDS + 5)}
    columns = JsonColumns()
    found, schema = typed(rows(many, {"f0": 1}), "", columns)
    assert len(kinds(schema)) == MAX_FIELDS and [bool(flags & MISFIT) for flags in found["flags"]] == [True, False]
    found, after = typed(rows(many, {"f0": 1}, {"other": "x"}), schema, columns)
    assert after == schema and [bool(flags & MISFIT) for flags in found["flags"]] == [True, False, True]
    _, after = typed(rows({"f" * 200: 1}), delta_schema())
    assert kinds(after) == {}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("aAbB_. é"), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.sampled_from(["a", "b", "A", "b_a"]), VALUES, max_size=3) | st.binary(max_size=5)


@given(st.lists(BODIES, min_size=1, max_size=6), st.lists(BODIES, min_size=1, max_size=6))
def test_nothing_stops_it_and_both_ways_give_the_same(first: list[Any], second: list[Any]) -> None:
    columns = JsonColumns()
    _, schema = typed(rows(*first), "", columns)
    fast, after = typed(rows(*second), schema, columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Part, "_at_once", lambda self, unexpected: None)
        slow, same = typed(rows(*second), schema, JsonColumns())
    assert (fast, after) == (slow, same)


def test_known_fields_are_read_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = JsonColumns()
    _, schema = typed(rows(BODY), "", columns)
    monkeypatch.setattr(_Part, "_one_by_one", lambda self, is_object: pytest.fail("a body was looked at by itself"))
    found, _ = typed(rows(*[BODY] * (PART_ROWS + 1), b"other"), schema, columns)
    assert found["json_pos_lat"] == [1.5] * (PART_ROWS + 1) + [None]


def test_names_that_are_data_take_a_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body by device, `{"sensor-17": 20.5}`: a reader made a column of each, as long as all bodies."""
    read: list[int] = []

    def counted(bodies: Any, schema: Any, unexpected: str) -> Any:
        table = read_block(bodies, schema, unexpected)
        if table is not None:
            read.append(len(table.column_names) * len(bodies))
        return table

    monkeypatch.setattr("entrepot.broker.tiered.json_columns.read_block", counted)
    count = 4_000
    for step in (1, 50):  # at once, and only behind a sample without them
        bodies = [
            {"n": at} | {f"sensor-{at}-{number}": 1.5 for number in range(4 * (at % step == step - 1))}
            for at in range(count)
        ]
        found, schema = typed(rows(*bodies))
        assert found["json_n"] == list(range(count)) and len(kinds(schema)) == MAX_FIELDS
        has_others = [len(body) > 1 for body in bodies]
        assert sum(bool(flags & MISFIT) for flags in found["flags"]) in (sum(has_others) - 24, sum(has_others) - 25)
    assert 0 < max(read) <= 2 * MAX_CELLS


def test_the_same_columns_in_parts_as_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [{"a": at, "null": None, "b": {"c": "x" * (at % 3)}} for at in range(500)] + [{"d": 1.5}] * 100
    whole = typed(rows(*bodies))
    monkeypatch.setattr("entrepot.broker.tiered.json_columns.MAX_CELLS", 5_000)
    assert typed(rows(*bodies)) == whole


# -- tables ----------------------------------------------------------------------------------------------------------


class JsonBench(Bench):
    """An uploader that makes typed columns, into a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(FolderStore(folder), payload=Payload.JSON)

    def send(self, topic: ModelTopic, *bodies: Any) -> None:
        for body in bodies:
            self.master.publish(topic, 0, MIDNIGHT, body if isinstance(body, bytes) else json.dumps(body).encode())


def test_others_read_the_columns_and_the_table_evolves(tmp_path: Path) -> None:
    bench = JsonBench(tmp_path)
    topic = bench.topic()
    bench.send(topic, {"celsius": 20.5, "line": "a"}, {"celsius": 21}, b"\x00")
    bench.upload()
    bench.send(topic, {"celsius": 22.5, "pressure": 7}, {"celsius": "hot"})
    bench.upload()
    path = str(tmp_path / topic.root)
    expected = [
        (20.5, "a", None, 0),
        (21.0, None, None, 0),
        (None, None, None, 0),
        (22.5, None, 7, 0),
        (None, None, None, 0),
    ]
    names = ["json_celsius", "json_line", "json_pressure", "flags"]
    table = DeltaTable(path)
    assert {f.name: f.type.type for f in table.schema().fields if f.name.startswith("json_")} == {
        "json_celsius": "double",
        "json_celsius__string": "string",
        "json_line": "string",
        "json_pressure": "long",
    }
    read = duckdb.from_arrow(table.to_pyarrow_dataset()).order("queue_offset").project(", ".join(names))
    assert read.fetchall() == expected
    assert polars.scan_delta(path).sort("queue_offset").select(names).collect().rows() == expected
    assert table.to_pandas(columns=names)["json_celsius"].sum() == 64.0
    assert offsets(bench.cold(topic)) == list(range(5)), "the broker reads on"


def test_merging_keeps_the_columns(tmp_path: Path) -> None:
    bench = JsonBench(tmp_path)
    topic = bench.topic()
    for number in range(LEAST_SEGMENTS + 2):
        bench.send(topic, {f"f{number % 3}": number})
        bench.clock.advance(1)
        bench.upload()
    assert len(bench.table(topic).snapshot.files) < LEAST_SEGMENTS
    found = DeltaTable(str(tmp_path / topic.root)).to_pandas().sort_values("queue_offset")
    for number, row in enumerate(found.to_dict("records")):
        assert row[f"json_f{number % 3}"] == number
    assert offsets(bench.cold(topic)) == list(range(LEAST_SEGMENTS + 2))


def test_two_uploaders_that_find_other_fields_at_once(tmp_path: Path) -> None:
    """Each knows version N, and has fields of its own; both end as columns, and no message is doubled."""
    bench, other = JsonBench(tmp_path), JsonBench(tmp_path)
    topic = bench.topic()
    other.master, other.broker.master = bench.master, bench.master
    bench.send(topic, {"a": 1})
    bench.upload()
    other.upload()
    bench.send(topic, {"a": 2, "mine": 1})
    bench.upload()
    bench.send(topic, {"a": 3, "theirs": "x", "MINE": "no number"})
    other.upload()  # is refused: it does not know of `mine`
    assert "another's commit" in other.broker.progress[topic.root].problem
    other.steady += FIRST_PAUSE
    other.upload()
    assert other.broker.progress[topic.root].problem == ""
    found = DeltaTable(str(tmp_path / topic.root)).to_pandas().sort_values("queue_offset")
    assert found["queue_offset"].tolist() == [0, 1, 2] and found["json_a"].tolist() == [1, 2, 3]
    assert found["json_theirs"].tolist()[2] == "x" and found["json_mine"].tolist()[1] == 1
    assert found["json_mine__string"].tolist()[2] == "no number" and not any(found["flags"]), "whoever uploads"


def test_what_arrow_does_not_take_goes_without_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = JsonBench(tmp_path)
    topic = bench.topic()
    bench.send(topic, {"a": 1})
    bench.upload()

    def refuse(self: JsonColumns, rows: Any, schema: str) -> Any:
        raise pa.ArrowCapacityError("too large")

    with monkeypatch.context() as patch:
        patch.setattr(JsonColumns, "typed", refuse)
        bench.send(topic, {"a": 2})
        bench.upload()
    assert bench.broker.progress[topic.root].ends == {0: 2}
    found = polars.scan_delta(str(tmp_path / topic.root)).sort("queue_offset").collect()
    assert found["json_a"].to_list() == [1, None]


def test_the_columns_go_on_where_the_setting_was_off(tmp_path: Path) -> None:
    bench = JsonBench(tmp_path)
    topic = bench.topic()
    bench.send(topic, {"a": 1})
    bench.upload()
    off = Bench(bench.objects)
    off.master, off.broker.master = bench.master, bench.master
    bench.send(topic, {"a": 2})
    off.upload()
    bench.send(topic, {"a": 3})
    bench.upload()
    bench.steady += FIRST_PAUSE
    bench.upload()
    found = polars.scan_delta(str(tmp_path / topic.root)).sort("queue_offset").collect()
    assert found["json_a"].to_list() == [1, None, 3]


async def test_a_broker_makes_them_where_it_is_told_to(tmp_path: Path) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock, payload="json") as store:
        await store.topology.put_topic(TOPIC)
        bodies = [b'{"celsius": %d.5}' % number for number in range(20)]
        messages = [Message("factory", body, "factory", number % QUEUES) for number, body in enumerate(bodies)]
        await append_all(store, *messages)
        await all_uploaded(store, 10)
        found = polars.scan_delta(str(tmp_path / "cold" / root(store))).select("json_celsius").collect()
    assert sorted(found["json_celsius"]) == [number + 0.5 for number in range(20)]
