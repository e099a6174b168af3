"""RocketMQ's tag expressions."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind, MessageFilter, compile_filter
from entrepot.domain.expression.tag import MAX_TAG_ALTERNATIVES, MAX_TAG_EXPRESSION_LENGTH
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import Message
from tests.support.cases import cases


def tag_filter(text: str) -> MessageFilter:
    return compile_filter(FilterExpression(FilterKind.TAG, text))


@cases("text", ["*", "", " ", "\t* "])
def test_everything_is_wanted(text: str) -> None:
    wanted = tag_filter(text)
    assert wanted.accepts_all
    for tag in ("", "red", "*"):
        assert wanted.matches(Message("t", b"", tag=tag))
        assert wanted.may_match(filter_hash("t/x", tag))


@cases(
    "text, tags",
    [
        ("red", {"red"}),
        (" red ", {"red"}),
        ("red||green", {"red", "green"}),
        ("red || green\t||blue", {"red", "green", "blue"}),
        ("red || || green ||", {"red", "green"}),
        ("|| red", {"red"}),
        ("red || red", {"red"}),
        ("light red || größe", {"light red", "größe"}),
        ("red || *", {"red", "*"}),
        ("a|b", {"a|b"}),
        ("a|||b", {"a", "|b"}),
        ("Red", {"Red"}),
    ],
)
def test_a_message_with_one_of_the_alternatives_matches(text: str, tags: set[str]) -> None:
    wanted = tag_filter(text)
    assert not wanted.accepts_all
    assert wanted.exact_sub_topic is None
    for tag in tags | {"", "red", "green", "blue", "a", "b", "|", "light"}:
        assert wanted.matches(Message("t", b"", tag=tag)) == (tag in tags)
        assert wanted.may_match(filter_hash("t/x", tag)) == (tag in tags)


@cases(
    "text, position",
    [
        ("||", 1),
        ("  || ||", 3),
        ("x" * (MAX_TAG_EXPRESSION_LENGTH + 1), MAX_TAG_EXPRESSION_LENGTH + 1),
        ("||".join(map(str, range(MAX_TAG_ALTERNATIVES + 1))), 2451),
        ("red || \ud800", 8),
    ],
)
def test_bad_tag_expressions_are_refused_with_their_place(text: str, position: int) -> None:
    with pytest.raises(EntrepotError) as refused:
        tag_filter(text)
    assert refused.value.code == Code.ILLEGAL_FILTER_EXPRESSION
    assert f"at position {position}:" in refused.value.message


def test_the_most_alternatives_are_taken() -> None:
    assert tag_filter("||".join(map(str, range(MAX_TAG_ALTERNATIVES)))).matches(Message("t", b"", tag="511"))
