"""docs/filters.md says what is so: its examples are read from it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from entrepot.domain.event_filters import event_filter_json
from entrepot.domain.event_filters.event_filter_json import EventFilterError, parse_event_filters, parse_sql_filter
from entrepot.domain.expression.cesql import function, parser
from entrepot.domain.expression.cesql.expression import compile_cesql
from tests.support.cases import cases

TEXT = (Path(__file__).parents[3] / "docs" / "filters.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_example_is_a_list_of_filters():
    (block,) = blocks("json")
    filters = parse_event_filters(json.loads(block))
    event = {"type": "com.example.order.created", "source": "/shop/rome", "amount": "1000", "customer": "7"}
    assert filters.matches(event)
    assert not filters.matches({**event, "amount": "999"})
    assert not filters.matches({**event, "subject": "a/test"})


def test_the_examples_are_expressions():
    lines = blocks("sql")[0].splitlines()
    assert len(lines) > 4
    for line in lines:
        parse_sql_filter(line)


def test_functions_give_what_is_said():
    rows = re.findall(r"^\| `([A-Z_]+\(.*\))` \| `(.*)` \|$", TEXT, re.MULTILINE)
    assert {text.partition("(")[0] for text, _ in rows} == set(function.FUNCTIONS)
    for text, value in rows:
        assert compile_cesql(text).evaluate({}) == compile_cesql(value).evaluate({}), text


def test_errors_are_as_shown():
    shown = re.search(r"^    (filters\[0\]\.sql: .*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert shown is not None
    with pytest.raises(EventFilterError) as caught:
        parse_event_filters([{"sql": "type = "}])
    assert caught.value.message == re.sub(r"\n +", " ", shown[1])
    with pytest.raises(EventFilterError) as caught:
        parse_event_filters([{"not": {"exact": {"a": "b"}}}, {"any": [{"exact": {"type": ""}}]}])
    assert f"`{caught.value.message}`" in TEXT


@cases("text", ["hop < 'abc'", "hop + 1", "nosuch(hop) = 1", "hop / 0 = 1"])
def test_what_no_event_can_pass_is_refused(text):
    with pytest.raises(EventFilterError):
        parse_sql_filter(text)


@cases(
    "said, same, event",
    [
        ("a = 1 OR b = 1 AND c = 1", "(a = 1 OR b = 1) AND c = 1", {"a": "1", "b": "1", "c": "2"}),
        ("NOT a = 1", "(NOT a) = 1", {"a": "false"}),
        ("size = 10", "TRUE", {"size": "010"}),
        ("size = '10'", "FALSE", {"size": "010"}),
    ],
)
def test_what_differs_from_other_sql(said, same, event):
    assert compile_cesql(said).evaluate(event) == compile_cesql(same).evaluate(event)


@cases(
    "limit",
    [
        event_filter_json.MAX_FILTERS,
        event_filter_json.MAX_SQL_FILTERS,
        event_filter_json.MAX_FILTER_DEPTH,
        event_filter_json.MAX_TEXT_LENGTH,
        event_filter_json.MAX_TOTAL_LENGTH,
        parser.MAX_CESQL_LENGTH,
        parser.MAX_CESQL_DEPTH,
        parser.MAX_CESQL_PATTERNS,
        function.MAX_STRING_LENGTH,
    ],
)
def test_limits_are_said(limit):
    assert re.search(rf"\b({limit}|{limit:,})\b", TEXT)
