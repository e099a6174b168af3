"""The dialects of the Subscriptions draft: what they match, how they are written, what is refused and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code
from entrepot.domain.event_filters.event_filter import NO_FILTERS
from entrepot.domain.event_filters.event_filter_json import (
    MAX_FILTER_DEPTH,
    MAX_FILTERS,
    MAX_SQL_FILTERS,
    MAX_TEXT_LENGTH,
    MAX_TOTAL_LENGTH,
    EventFilterError,
    parse_event_filters,
    parse_sql_filter,
)
from entrepot.domain.expression.cesql.expression import compile_cesql
from entrepot.domain.expression.cesql.tokens import CesqlParseError
from tests.support.cases import cases
from tests.unit.expression.event_filter_model import events, filter_lists, wants

EVENT = {
    "specversion": "1.0",
    "id": "42",
    "source": "https://example.com/orders",
    "type": "com.example.order.created",
    "subject": "orders/7",
    "retries": 3,
    "urgent": True,
}


@cases(
    "document, matches",
    [
        ({"exact": {"type": "com.example.order.created"}}, True),
        ({"exact": {"type": "com.example.order.created", "subject": "orders/7"}}, True),
        ({"exact": {"type": "com.example.order.created", "subject": "orders/8"}}, False),
        ({"exact": {"type": "Com.Example.Order.Created"}}, False),
        ({"exact": {"nowhere": "x"}}, False),
        ({"exact": {"retries": "3", "urgent": "true"}}, True),
        ({"exact": {"urgent": "True"}}, False),
        ({"prefix": {"type": "com.example.", "subject": "orders/"}}, True),
        ({"prefix": {"type": "com.example.", "subject": "order/"}}, False),
        ({"prefix": {"type": "com.example.order.created.v2"}}, False),
        ({"prefix": {"nowhere": "x"}}, False),
        ({"suffix": {"type": ".created", "retries": "3"}}, True),
        ({"suffix": {"type": ".Created"}}, False),
        ({"suffix": {"nowhere": "x"}}, False),
        ({"all": [{"prefix": {"type": "com."}}, {"suffix": {"type": ".created"}}]}, True),
        ({"all": [{"prefix": {"type": "com."}}, {"suffix": {"type": ".gone"}}]}, False),
        ({"any": [{"prefix": {"type": "org."}}, {"suffix": {"type": ".created"}}]}, True),
        ({"any": [{"prefix": {"type": "org."}}, {"suffix": {"type": ".gone"}}]}, False),
        ({"not": {"exact": {"nowhere": "x"}}}, True),
        ({"not": {"not": {"exact": {"id": "42"}}}}, True),
        ({"sql": "source LIKE 'https://%' AND retries < 5 AND urgent"}, True),
        ({"sql": "urgent"}, True),
        ({"sql": "retries"}, False),
        ({"sql": "type"}, False),
        ({"sql": "nowhere = 'x'"}, False),
        ({"sql": "NOT (nowhere = 'x')"}, False),
        ({"not": {"sql": "nowhere = 'x'"}}, True),
    ],
)
def test_dialects(document, matches):
    filters = parse_event_filters([document])
    assert filters.matches(EVENT) is matches
    assert filters.to_json() == [document]


def test_a_list_is_all_of_it_and_no_list_is_everything():
    assert parse_event_filters(None) == parse_event_filters([]) == NO_FILTERS
    assert NO_FILTERS.matches({})
    filters = parse_event_filters([{"prefix": {"type": "com."}}, {"exact": {"subject": "orders/7"}}])
    assert filters.matches(EVENT)
    assert not filters.matches({**EVENT, "subject": "orders/8"})
    assert not filters.matches({**EVENT, "type": "org."})


REFUSED = [
    ({}, "filters", "array"),
    ("sql", "filters", "array"),
    (["type = 'a'"], "filters[0]", "object"),
    ([None], "filters[0]", "null"),
    ([{}], "filters[0]", "exact, prefix, suffix, all, any, not, sql"),
    ([{"exakt": {"type": "a"}}], "filters[0]", "'exact'"),
    ([{"regex": {"type": "a"}}], "filters[0]", "there is no dialect 'regex'"),
    ([{"x" * 10_000: {}}], "filters[0]", "there is no dialect"),
    ([{"exact": {"type": "a"}, "prefix": {"type": "a"}}], "filters[0]", "'all'"),
    ([{"exact": {"type": "a"}}, {"exact": {}}], "filters[1].exact", "at least one attribute"),
    ([{"exact": []}], "filters[0].exact", "object"),
    ([{"exact": {"type": ""}}], "filters[0].exact.type", "empty"),
    ([{"exact": {"": "a"}}], "filters[0].exact['']", "name of an attribute"),
    ([{"prefix": {"Type": "a"}}], "filters[0].prefix.Type", "lower-case"),
    ([{"prefix": {"my type": "a"}}], "filters[0].prefix['my type']", "name of an attribute"),
    ([{"suffix": {"type": 5}}], "filters[0].suffix.type", "a number"),
    ([{"suffix": {"type": True}}], "filters[0].suffix.type", "a boolean"),
    ([{"suffix": {"type": ["a"]}}], "filters[0].suffix.type", "an array"),
    ([{"exact": {"type": "a" * (MAX_TEXT_LENGTH + 1)}}], "filters[0].exact.type", str(MAX_TEXT_LENGTH)),
    ([{"all": []}], "filters[0].all", "at least one filter"),
    ([{"any": {}}], "filters[0].any", "array"),
    ([{"not": []}], "filters[0].not", "object"),
    ([{"not": {}}], "filters[0].not", "dialect"),
    ([{"all": [{"any": [{"not": {"exact": {"type": ""}}}]}]}], "filters[0].all[0].any[0].not.exact.type", "empty"),
    ([{"sql": {"expression": "TRUE"}}], "filters[0].sql", "string"),
    ([{"sql": "type = "}], "filters[0].sql", "line 1, column 8"),
    ([{"sql": ""}], "filters[0].sql", "line 1, column 1"),
    ([{"sql": "type = 'a' AND nofunction(type)"}], "filters[0].sql", "line 1, column 16"),
    ([{"sql": "retries < 'abc'"}], "filters[0].sql", "'abc' is not a 32-bit integer"),
    ([{"sql": "retries + 1"}], "filters[0].sql", "Integer"),
    ([{"sql": "TRIM(type)"}], "filters[0].sql", "String"),
]


@cases("document, path, reason", REFUSED)
def test_what_is_refused_says_where(document, path, reason):
    with pytest.raises(EventFilterError) as caught:
        parse_event_filters(document)
    error = caught.value
    assert error.path == path
    assert reason in error.reason
    assert error.message == f"{path}: {error.reason}"
    assert error.code is Code.ILLEGAL_FILTER_EXPRESSION
    assert len(error.message) < 400


def test_the_place_in_an_expression_is_kept():
    with pytest.raises(EventFilterError) as caught:
        parse_event_filters([{"all": [{"sql": "type =\n  'a' 'b'"}]}], "subscription.filters")
    assert caught.value.path == "subscription.filters[0].all[0].sql"
    fault = caught.value.parse_error
    assert isinstance(fault, CesqlParseError)
    assert (fault.offset, fault.line, fault.column) == (13, 2, 7)


def test_an_expression_alone():
    assert parse_sql_filter("id = 42").matches(EVENT)
    with pytest.raises(EventFilterError, match=r"query\.filter: illegal CESQL expression at line 1, column 4"):
        parse_sql_filter("id 42", "query.filter")


def test_a_document_is_as_large_and_deep_as_is_bearable():
    def nested(depth):
        document = {"exact": {"type": "a"}}
        for _ in range(depth - 1):
            document = {"not": document}
        return document

    parse_event_filters([nested(MAX_FILTER_DEPTH)])
    for depth in (MAX_FILTER_DEPTH + 1, 900):
        with pytest.raises(EventFilterError, match="deep"):
            parse_event_filters([nested(depth)])
    one = {"exact": {"type": "a"}}
    parse_event_filters([one] * MAX_FILTERS)
    with pytest.raises(EventFilterError, match=f"more than {MAX_FILTERS} filters"):
        parse_event_filters([one, {"all": [one] * (MAX_FILTERS - 1)}])
    parse_event_filters([{"sql": "TRUE"}] * MAX_SQL_FILTERS)
    with pytest.raises(EventFilterError, match=f"more than {MAX_SQL_FILTERS} CESQL"):
        parse_event_filters([{"sql": "TRUE"}] * (MAX_SQL_FILTERS + 1))
    long = {"exact": {"type": "a" * MAX_TEXT_LENGTH}}
    with pytest.raises(EventFilterError, match=f"more than {MAX_TOTAL_LENGTH} characters"):
        parse_event_filters([long] * (MAX_TOTAL_LENGTH // MAX_TEXT_LENGTH))


words = st.sampled_from(
    ["exact", "prefix", "suffix", "all", "any", "not", "sql", "type", "a", "", "Type", "a = 1", "("]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=5)
documents = st.recursive(
    scalars, lambda part: st.lists(part, max_size=3) | st.dictionaries(words | st.integers(), part, max_size=2)
)


@given(documents)
def test_any_document_is_a_list_of_filters_or_refused(document):
    try:
        filters = parse_event_filters(document)
    except EventFilterError as fault:
        path = fault.path
    else:
        assert filters.to_json() == (document or [])
        return
    assert path.startswith("filters")


def test_filters_are_values():
    first = parse_event_filters([{"exact": {"type": "a", "id": "b"}}, {"sql": "a = 1"}])
    second = parse_event_filters([{"exact": {"id": "b", "type": "a"}}, {"sql": "a = 1"}])
    assert first == second
    assert hash(first) == hash(second)
    assert first != parse_event_filters([{"prefix": {"type": "a", "id": "b"}}, {"sql": "a = 1"}])


@given(filter_lists, events)
def test_random_filters_mean_what_the_draft_says(documents, event):
    filters = _parsed(documents)
    if filters is not None:
        assert filters.to_json() == documents
        assert parse_event_filters(filters.to_json()) == filters
        assert filters.matches(event) is all(wants(each, event, _sql_matches) for each in documents)


def _sql_matches(text, event):
    found = compile_cesql(text).evaluate(event)
    return found.value is True and found.error is None


def _parsed(documents):
    try:
        return parse_event_filters(documents)
    except EventFilterError:  # an expression with a part that is always an error
        return None
