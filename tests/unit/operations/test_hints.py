"""The hints of operations: their commands are those of the command line, and send the request that is shown."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qs, quote

import pytest
import typer.main

from entrepot.gateway.cli.app import app
from entrepot.gateway.cli.client import Client
from entrepot.gateway.operations.all_nouns import NOUNS
from entrepot.gateway.operations.row.hints import hints_of_rows
from tests.support.gateways.kept_commands import KEPT, Kept
from tests.support.processes.command_line import build_commands_once

HINTS: Final = json.loads(json.dumps(hints_of_rows(row for noun in NOUNS for row in noun.operations)))
COMMANDS: Final = [(id_, name) for id_, hint in HINTS.items() for name in hint.get("commands", ())]
MOST_BYTES: Final = 60_000
SAMPLES: Final[dict[str, list[tuple[str, Any]]]] = {
    "--retry": [
        ("immediate", {"kind": "immediate"}),
        ("exponential:1:9", {"kind": "exponential", "initialMs": 1, "maxMs": 9}),
        ("exponential:1:9:2", {"kind": "exponential", "initialMs": 1, "maxMs": 9, "multiplier": 2}),
        ("list:1,9", {"kind": "list", "delaysMs": [1, 9]}),
    ],
    "--filter": [("none", None), ("TAG:a:b", {"kind": "TAG", "text": "a:b"})],
    "--on": [("broker-0=4", {"broker-0": 4})],
}
"""Texts of the options that have forms, and what they send."""
Typed = Callable[[str, list[str]], tuple[str, Any, Any]]


class Sent(Exception):
    """The request that a command has come to."""


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Runs a command up to its request by a method: gives its path, query and body."""
    build_commands_once(monkeypatch)
    wanted = ""

    def request(self: Client, method: str, path: str, *, query: Any = None, body: Any = None) -> Any:
        if method == wanted:
            raise Sent(path, query or {}, body)
        return {}

    monkeypatch.setattr(Client, "request", request)

    def sent_by(method: str, words: list[str]) -> tuple[str, Any, Any]:
        nonlocal wanted
        wanted = method
        with pytest.raises(Sent) as found:
            typer.main.get_command(app).main(words[1:], standalone_mode=False)
        path, query, body = found.value.args
        return path, query, body

    return sent_by


@pytest.mark.parametrize("kept", [each for each in KEPT if each.cli], ids=lambda kept: kept.cli)
def test_a_kept_command_sends_the_request_beside_it(typed: Typed, kept: Kept) -> None:
    method, _, address = kept.rest.partition(" ")
    wanted, _, query = address.partition("?")
    words = shlex.split(kept.cli or "")
    asks = HINTS[kept.id]["commands"][words[2]].get("asks") and "--yes" not in words
    path, asked, body = typed(method, [*words[:3], *(["--yes"] if asks else []), *words[3:]])
    assert path == quote(wanted, safe="/%:")
    assert {name: [value] for name, value in asked.items()} == parse_qs(query)
    shown = {name: value for name, value in (kept.body or {}).items() if name != "password"}
    assert body == (None if kept.body is None else shown)


@pytest.mark.parametrize(("id_", "command"), COMMANDS)
def test_a_command_takes_what_its_hint_says(typed: Typed, id_: str, command: str) -> None:
    hint = HINTS[id_]
    words = hint["commands"][command]["words"].split()
    assert words[0] == "entrepot" and words[2] == command
    arguments = [f"a-{name}" for name in hint["arguments"]]
    more = ["--yes"] if hint["commands"][command].get("asks") else []
    more += ["--namespace", "team"] if "within" in hint else []
    values = {name: f"a-{name}" for name in (*hint["arguments"], "namespace")} | {"namespace": "team"}
    wanted = re.sub(r"\{(\w+)\}", lambda found: values[found[1]], hint.get("within", hint["path"]))
    required = {"resetGroup": {"to": "1"}}.get(id_, {})
    needed = [each for name, value in required.items() for each in (hint["options"][name], value)]
    for name, option in hint["options"].items():
        for said, sent in texts_of(option):
            others = [] if name in required else needed
            path, query, body = typed(hint["method"], [*words, *arguments, *said, *others, *more])
            found = {**query, **(body or {})}
            assert path == wanted
            assert found[name] == sent or (sent == 1 and found[name] == "1"), said
    typed(hint["method"], [*words, *arguments, *needed, *more])


def texts_of(option: Any) -> list[tuple[list[str], Any]]:
    """Words of an option, each with the value that they send."""
    if isinstance(option, str):
        return [([option, "1"], 1)]
    if isinstance(option, list):
        return [([word], value) for word, value in zip(option, (True, False), strict=True)]
    name = option["option"]
    if "sends" in option:
        return [([name], option["sends"])]
    if option["forms"] == ["none"]:
        return [([name, "1"], 1), ([name, "none"], None)]
    assert len(SAMPLES[name]) == len(option["forms"])
    return [([name, text], value) for text, value in SAMPLES[name]]


def test_a_path_names_what_its_arguments_are() -> None:
    for id_, hint in HINTS.items():
        names = re.findall(r"\{(\w+)\}", hint["path"])
        assert "within" not in hint or re.findall(r"\{(\w+)\}", hint["within"]) == ["namespace", *names]
        assert hint.get("arguments", names)[: len(names)] == names, id_
        fields = [*hint.get("arguments", ()), *hint.get("options", ())]
        assert len(set(fields)) == len(fields), id_


def test_no_field_is_in_body_and_query_of_an_operation_with_a_command() -> None:
    for row in (row for noun in NOUNS for row in noun.operations if row.words):
        fields = [set(kind.__struct_fields__) if kind else set() for kind in (row.query, row.body)]
        assert fields[0].isdisjoint(fields[1]), row.id


def test_the_page_is_told_little() -> None:
    assert len(json.dumps(HINTS)) < MOST_BYTES


def test_hints_are_these() -> None:
    assert HINTS["deleteTopic"] == {
        "method": "DELETE",
        "path": "/api/v1/topics/{name}",
        "within": "/api/v1/namespaces/{namespace}/topics/{name}",
        "commands": {"delete": {"words": "entrepot topic delete", "asks": True}},
        "arguments": ["name"],
        "options": {},
    }
    assert HINTS["putUser"] == {
        "method": "PUT",
        "path": "/api/v1/users/{name}",
        "commands": {"update": {"words": "entrepot user update"}},
        "arguments": ["name"],
        "options": {
            "super": ["--super", "--no-super"],
            "enabled": ["--enable", "--disable"],
            "confirm": {"option": "--own", "sends": "own-rights"},
        },
    }
    assert HINTS["createSubscription"] == {
        "method": "POST",
        "path": "/subscriptions",
        "within": "/namespaces/{namespace}/subscriptions",
    }
    assert HINTS["putBroker"] == {"method": "PUT", "path": "/api/v1/brokers/{name}"}
