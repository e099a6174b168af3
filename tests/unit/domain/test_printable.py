"""What others chose, as it may be shown."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.printable import printable, printable_json, printable_lines
from tests.support.processes.terminal import ACTING, acting_on_a_terminal

TEXTS = st.text(st.characters() | st.sampled_from(ACTING), max_size=30)


@given(TEXTS)
def test_nothing_acts_on_a_terminal(text: str) -> None:
    for shown in (printable(text), printable_lines(text)):
        assert acting_on_a_terminal(shown) == ""
        shown.encode()
    assert "\n" not in printable(text) and printable_lines(text).count("\n") == text.count("\n")


@given(st.recursive(TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=5))
def test_json_says_the_same(value: object) -> None:
    shown = printable_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert acting_on_a_terminal(shown) == "" and json.loads(shown) == value


def test_ordinary_texts_stay_as_they_are() -> None:
    text = "Entrepôt [red]müde[/red] 東京 👩‍🔬 \\x1b"
    assert printable(text) == printable_lines(text) == printable_json(text) == text
    assert printable("a\x1b[31m\n\t\x9b\u202e\ud800") == r"a\x1b[31m\n\t\x9b\u202e\ud800"
