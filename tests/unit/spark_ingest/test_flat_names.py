"""Columns of structs have names of their own, whatever stands beside them: to Spark the case of letters is the same."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from entrepot.spark_ingest.job.flat import FlatRows

NAMES = st.sampled_from(["lat", "Lat", "LAT", "lon", "pos", "Pos", "pos_lat", "Pos_Lat", "pos_lat_"])


def structs(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.dictionaries(NAMES.map(str.lower), children, min_size=1, max_size=3)
    return fields.map(lambda found: pa.struct([pa.field(name, kind) for name, kind in found.items()]))


@given(st.dictionaries(NAMES, st.recursive(st.just(pa.string()), structs, max_leaves=4), max_size=5))
def test_no_two_columns_have_one_name(kinds: dict[str, pa.DataType]) -> None:
    by_name = {name.lower(): pa.field(name, kind) for name, kind in kinds.items()}  # as a source's schema has them
    names = FlatRows(pa.schema(list(by_name.values())), has_event_time=False).good.names
    assert len({name.lower() for name in names}) == len(names)
    assert {field.name for field in by_name.values() if not pa.types.is_struct(field.type)} <= set(names)


def test_a_column_that_is_there_keeps_its_name() -> None:
    schema = pa.schema([("pos", pa.struct([("lat", pa.float64())])), ("Pos_Lat", pa.string())])
    assert FlatRows(schema, has_event_time=False).good.names == ["pos_lat_", "Pos_Lat"]
