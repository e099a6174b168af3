"""Escaped names: whole, of their alphabet, and as other programs escape where the sign is `%`."""

from __future__ import annotations

import re
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.escaped_names import Escaping

TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text("%~41aé")


@given(TEXTS)
def test_a_name_is_its_text_again(text: str) -> None:
    for escaping in (Escaping(""), Escaping("|-_"), Escaping("_.-", sign="~")):
        assert escaping.text(escaping.name(text)) == text


@given(TEXTS)
def test_a_name_keeps_to_its_alphabet(text: str) -> None:
    assert re.fullmatch(r"([A-Za-z0-9_.-]|~[0-9A-F]{2})*", Escaping("_.-", sign="~").name(text))


@given(TEXTS)
def test_an_escaped_name_can_stand_in_a_url(text: str) -> None:
    assert Escaping("_.-~").name(text) == quote(text, safe="")


def test_what_is_no_escape_stands_for_itself() -> None:
    assert Escaping("").text("50%!%C3%A9%") == "50%!é%"
