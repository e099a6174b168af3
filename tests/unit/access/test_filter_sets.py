"""Coverage and overlap of filters against a slow model: all names over a small alphabet, matched one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.access.filters import covers, overlap, prefix_covers, prefix_overlaps
from entrepot.domain.routing.topic_filter import is_valid_filter, matches
from tests.support.cases import cases

LEVELS = ("", "a", "b", "ab", "$s", "z")
"""`z` and `$s` are in few filters: they stand for all the levels that a filter does not spell out."""
DEEPEST = 4
NAMES = ["/".join(levels) for depth in range(1, DEEPEST + 1) for levels in product(LEVELS, repeat=depth)]

filters = st.lists(st.sampled_from(["", "a", "b", "+", "#", "$s"]), min_size=1, max_size=3).map("/".join)
filters = filters.filter(is_valid_filter)
prefixes = st.text(alphabet="ab/$s", min_size=1, max_size=4)


def names_of(topic_filter: str) -> set[str]:
    """The empty name is in it: it is none, but nothing is lost by minding it."""
    return {name for name in NAMES if matches(topic_filter, name)}


@given(filters, filters)
def test_covers_is_the_subset_of_names(wide: str, narrow: str) -> None:
    assert covers(wide.split("/"), narrow.split("/")) == (names_of(narrow) <= names_of(wide))


@given(filters, filters)
def test_overlap_is_a_common_name(one: str, other: str) -> None:
    expected = bool(names_of(one) & names_of(other))
    assert overlap(one.split("/"), other.split("/")) == expected
    assert overlap(other.split("/"), one.split("/")) == expected


@given(prefixes, filters)
def test_a_prefix_covers_names_that_begin_with_it(prefix: str, topic_filter: str) -> None:
    names = names_of(topic_filter)
    assert prefix_covers(prefix, topic_filter.split("/")) == all(name.startswith(prefix) for name in names)


@given(prefixes, filters)
def test_a_prefix_meets_a_filter_in_a_name(prefix: str, topic_filter: str) -> None:
    names = [prefix, *(prefix + separator + name for separator in ("", "/", "s", "s/") for name in NAMES)]
    assert prefix_overlaps(prefix, topic_filter.split("/")) == any(matches(topic_filter, name) for name in names)


@cases(
    "wide, narrow, expected",
    [
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS", True),
        ("a/#", "a", True),
        ("a/+", "a/#", False),
        ("+/#", "#", True),
        ("a/b", "a/+", False),
        ("a/+/c", "a/b/c", True),
        ("a/b/c", "a/b", False),
        ("a", "a/b", False),
    ],
)
def test_cases_of_coverage(wide: str, narrow: str, expected: bool) -> None:
    assert covers(wide.split("/"), narrow.split("/")) is expected


def test_the_deepest_filters_take_no_time() -> None:
    deep = ["+"] * 127 + ["#"]
    assert covers(deep, ["a"] * 128)
    assert overlap(deep, ["+"] * 128)
