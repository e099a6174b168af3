"""LIKE patterns mean what they say, and cost one pass over the text."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.domain.expression.like import LikePattern
from tests.support.cases import cases


def naive(pattern: str, text: str) -> bool:
    """By the definition, with a regular expression: only for small inputs."""
    expression = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return re.fullmatch(expression, text, re.DOTALL) is not None


@given(st.text("ab_%", max_size=9), st.text("ab_%\n", max_size=12))
@example("%a_b%", "aab")
@example("%_a_b_%", "aaabab")
@example("a%a", "a")
@example("%%__%%", "a")
@example("%ab%ba%", "aabaa")
def test_like_is_as_defined(pattern: str, text: str) -> None:
    assert LikePattern(pattern, None, 0).matches(text) == naive(pattern, text)


@given(st.text("a_%!'", max_size=8))
def test_an_escaped_text_matches_only_itself(text: str) -> None:
    escaped = re.sub("[_%!]", r"!\g<0>", text)
    pattern = LikePattern(escaped, "!", 0)
    assert pattern.matches(text)
    assert not pattern.matches(text + "a")
    assert not pattern.matches(text.replace("_", "b").replace("%", "b") + "b")


def test_characters_beyond_the_first_plane_are_one() -> None:
    assert LikePattern("%_😀_ß%", None, 0).matches("x😀😀😀ß!")
    assert LikePattern("_", None, 0).matches("😀")


class CountingText(str):
    """Counts how often a single character is looked at."""

    looks = 0

    def __getitem__(self, key: Any) -> str:
        self.looks += 1
        return super().__getitem__(key)


@cases(
    "pattern",
    [
        "%" + "a_" * 1000 + "b%",
        "%" + "a_a%" * 1000 + "b",
        "%" + "%".join(["a_a"] * 500) + "%b%",
        "%" + "a" * 1000 + "_" + "a" * 1000 + "b%",
        "%a_b" * 100 + "%",
    ],
)
def test_no_character_is_looked_at_twice(pattern: str) -> None:
    """Backtracking would look at each as often as the pattern is long, or never end."""
    text = CountingText("a" * 20_000)
    assert not LikePattern(pattern, None, 0).matches(text)
    assert text.looks <= len(text)


@pytest.mark.timeout(20)
def test_what_backtracking_never_ends_on() -> None:
    assert not LikePattern("%a" * 2000 + "%b", None, 0).matches("a" * 60_000)
    assert not LikePattern("%a%_" * 1000 + "b%c", None, 0).matches("a" * 60_000 + "c")
    assert LikePattern("%a" * 2000 + "%b", None, 0).matches("a" * 60_000 + "b")
