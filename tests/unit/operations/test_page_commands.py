"""The dashboard's pages name operations and commands that are there: by ids, and in texts written by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from entrepot.gateway.cli.app import app
from entrepot.gateway.operations.all_nouns import NOUNS

PAGE: Final = Path(__file__).parents[3] / "gateway" / "http" / "dashboard" / "page"
TEXTS: Final = {path: path.read_text() for part in ("pages", "parts") for path in sorted((PAGE / part).glob("*.js"))}
NAMED: Final = re.compile(r'\b(same|rest|perform|pathOf)\(\s*"(\w+)"')
BY_HAND: Final = sorted({found for text in TEXTS.values() for found in re.findall(r'["`](entrepot [^"`\n]*)', text)})
FEWEST: Final = 50


def test_every_operation_that_a_page_names_is_there() -> None:
    rows = {row.id: row for noun in NOUNS for row in noun.operations}
    named = {found for text in TEXTS.values() for found in NAMED.findall(text)}
    assert len(named) > FEWEST
    assert [id_ for _, id_ in named if id_ not in rows] == []
    assert [id_ for how, id_ in named if how == "same" and not rows[id_].words] == []


@pytest.mark.parametrize("text", BY_HAND)
def test_a_command_by_hand_is_there_with_its_options(text: str) -> None:
    command: Any = typer.main.get_command(app)
    words = re.split(r"\$\{|[A-Z ]", text.removeprefix("entrepot "))
    for word in words:
        if not hasattr(command, "get_command"):
            break
        if not word:
            return  # the page chooses the last word
        command = command.get_command(None, word)
        assert command is not None, word
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]+", text)) <= known


def test_no_page_writes_a_path_or_a_made_command() -> None:
    made = [
        f"entrepot {noun.group} {words.command}" for noun in NOUNS for row in noun.operations for words in row.words
    ]
    assert made
    for path, text in TEXTS.items():
        assert "/api/v1/" not in text, path
        assert [each for each in made if re.search(rf"[\"`]{each}[ \"`]", text)] == [], path
