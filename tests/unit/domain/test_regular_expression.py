"""Patterns of users: what they match is what `re` matched, in linear time; what cannot be used is refused."""

from __future__ import annotations

import importlib.metadata
import re
import signal
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from hypothesis.errors import HypothesisDeprecationWarning, UnsatisfiedAssumption

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.regular_expression import MAX_PATTERN_LENGTH, RegularExpression
from tests.support.cases import cases

ALPHABET = "ab.-_/0é ñß東Ж|"
LITERALS = st.sampled_from([re.escape(each) for each in ALPHABET] + ["a", "b", "é", "-"])
CLASSES = st.sampled_from(
    ["[ab]", "[^a]", "[a-z0-9._-]", r"[\w.-]", r"[^\s/]", r"[\s\S]", "[]a]", "[^]a]", "[|)(]", "[à-ÿ]", r"[\dab]"]
)
ATOMS = LITERALS | CLASSES | st.sampled_from([".", r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\x61", r"\u00e9"])
REPEATS = st.sampled_from(["", "", "*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{,2}", "{2,}"])


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    sequences = st.lists(st.tuples(inner, REPEATS).map("".join), min_size=1, max_size=4).map("".join)
    return st.lists(sequences, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})") | sequences.map(
        lambda text: f"({text})"
    )


PATTERNS = st.tuples(
    st.sampled_from(["", "(?i)", "(?s)"]),
    st.sampled_from(["", "^", r"\A"]),
    st.recursive(ATOMS, _combined, max_leaves=8),
    st.sampled_from(["", "$", r"\Z"]),
).map("".join)
NAMES = st.text(alphabet=ALPHABET + "ABÉ", max_size=12)


ORACLE_SECONDS = 0.2


class TooLongError(Exception):
    """`re` goes through more ways to match than anybody waits for."""


def said_by_re(match: Callable[[str, str], object], pattern: str, name: str) -> bool:
    """What `re` says; where that takes too long, the example says nothing: that it may is why it is not used."""

    def over(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, ORACLE_SECONDS)
    try:
        return match(pattern, name) is not None
    except TooLongError:
        reject()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@given(PATTERNS, st.lists(NAMES, min_size=1, max_size=6))
def test_they_match_what_re_matches(pattern: str, names: list[str]) -> None:
    searched, whole = RegularExpression(pattern), RegularExpression(pattern, matches_whole=True)
    for name in names:
        assert searched.matches(name) is said_by_re(re.search, pattern, name), name
        assert whole.matches(name) is said_by_re(re.fullmatch, pattern, name), name


@given(st.lists(PATTERNS, max_size=2), PATTERNS, PATTERNS, st.lists(NAMES, min_size=1, max_size=6))
@example([], r"amq\.", ".*", ["amq.x", "amq", "x.amq.", ""])
@example([r"^amq\.topic$"], r"amq\.|foo$", ".+$", ["amq.topic", "amq.x", "foo", "food"])
def test_what_a_name_may_not_begin_with(others: list[str], excluded: str, rest: str, names: list[str]) -> None:
    others, excluded, rest = [_plain(each) for each in others], _plain(excluded), _plain(rest)
    pattern = "|".join([*others, rf"^(?!{excluded})(?!zz){rest}"])
    for flags in ("", "(?i)"):
        ours = RegularExpression(flags + pattern)
        for name in names:
            assert ours.matches(name) is said_by_re(re.search, flags + pattern, name), name


def _plain(pattern: str) -> str:
    """Without flags, which stand at the beginning only."""
    return re.sub(r"^\(\?[is]\)", "", pattern)


def test_an_example_that_takes_re_too_long_says_nothing() -> None:
    with pytest.warns(HypothesisDeprecationWarning, match="outside"), pytest.raises(UnsatisfiedAssumption):
        said_by_re(re.fullmatch, "(a*)*b", "a" * 40)
    assert said_by_re(re.fullmatch, "(a*)*b", "aab")


def test_the_sets_of_unicode_are_those_of_re() -> None:
    """Of what the oldest Unicode in use has."""
    for text in (r"\w", r"\d", r"\s", r"[\S]", r"[\w]"):
        ours, theirs = RegularExpression(text), re.compile(text)
        differ = [
            f"{point:04x}"
            for point in (*range(0x3100), *range(0xA000, 0xD800), *range(0xF900, 0x10100), *range(0x1D400, 0x1D800))
            if unicodedata.category(chr(point)) != "Cn"
            and ours.matches(chr(point)) is (theirs.match(chr(point)) is None)
        ]
        assert differ == [], text


WANTED = "; write ^(?!x) with the excluded beginnings, or only what is wanted"
REFUSED = {
    "(?!a)b": "a negative look-ahead elsewhere than behind the first ^ cannot be used here at position 0" + WANTED,
    "^a(?!b)": "a negative look-ahead elsewhere than behind the first ^ cannot be used here at position 2" + WANTED,
    "(?m)^(?!b)": "a negative look-ahead elsewhere than behind the first ^ cannot be used here at position 5" + WANTED,
    "^(?!a(?!b))c": "a negative look-ahead elsewhere than behind the first ^ cannot be used here at position 5"
    + WANTED,
    "a(?=b)": "a look-ahead cannot be used here at position 1; "
    "match what follows, as in ^app-(in|out)$ for ^app-(?=in|out)",
    "(?<=a)b": "a look-behind cannot be used here at position 0; match what is before, as in ^app-.*$ for (?<=^app-).*",
    "(?<!a)b": "a negative look-behind cannot be used here at position 0" + WANTED,
    r"(a)\1": "a reference back cannot be used here at position 3; write the group once more",
    "(?P<n>a)(?P=n)": "a reference back cannot be used here at position 8; write the group once more",
    "(?>a)": "an atomic group cannot be used here at position 0; write (?:...)",
    "a++": "bad repetition operator: ++ at position 1; repeat it once",
    "(?x)a": "a flag other than i, m and s, or behind the beginning, cannot be used here at position 0",
    r"[\W]": r"the escape \W cannot be used here in a character set at position 1",
    r"\Qa\E": r"the escape \Q cannot be used here at position 0",
    "(": "missing ), unterminated group at position 0",
    "^(?!a).*)b)(c": "unbalanced parenthesis at position 8",
    "^(?!a": "missing ), unterminated group at position 1",
    "[a": "unterminated character set at position 0",
    "[b-a]": "invalid character class range: b-a at position 1",
    "a\\": "bad escape (end of pattern) at position 1",
    "*": "no argument for repetition operator: * at position 0",
    "a{1001}": "invalid repetition size: {1001} at position 1",
    r"(\w\w){90}": "pattern too large - compile failed",
    "(a?b?){400}": "it has more than 1200 states when its repetitions are written out",
    "\ud800": "it is not Unicode at position 0",
}


@cases("pattern", REFUSED)
def test_what_cannot_be_used_is_refused_with_its_place(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EntrepotError) as refused:
        RegularExpression(pattern)
    assert refused.value.code is Code.BAD_REQUEST
    assert refused.value.message == f"{pattern!r} is not a regular expression: {REFUSED[pattern]}"
    assert capfd.readouterr().err == ""  # RE2 writes there by itself, unless told not to


def test_a_long_pattern_is_refused_and_a_deep_one_is_not() -> None:
    RegularExpression("(" * (MAX_PATTERN_LENGTH // 2) + ")" * (MAX_PATTERN_LENGTH // 2))
    with pytest.raises(EntrepotError, match="up to 1024 characters"):
        RegularExpression("a" * (MAX_PATTERN_LENGTH + 1))


@cases(
    "pattern", ["^(a+)+$", "^(a|a)*$", "(a*)*b", "(x+x+)+y", ".*a.{900}$", "a?" * 512, "(a?b?){200}!", "^(?!(a+)+$).*b"]
)
def test_no_pattern_takes_long(pattern: str) -> None:
    """With `re` these take longer than the universe is old, and no test may."""
    ours = RegularExpression(pattern)
    for name in ("a" * 254 + "!", "x" * 255, "ab" * 127):
        ours.matches(name)


def test_names_that_are_no_unicode_are_names_all_the_same() -> None:
    assert RegularExpression("^q.*x$").matches("q\udcff\ud800x") and not RegularExpression("^x").matches("\udcff")


def test_the_engine_is_the_one_that_never_falls_back() -> None:
    """pyre2 has the same import name and runs on `re` what RE2 refuses."""
    providers = importlib.metadata.packages_distributions()["re2"]
    assert set(providers) == {"google-re2"}
