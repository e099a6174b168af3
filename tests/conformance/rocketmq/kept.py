"""The kept answers: ours, and those of RocketMQ's proxy 5.5.0 in cluster mode, and where they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.conformance.rocketmq.player import Answer

Answers = dict[str, list[Answer]]
"""Masked answers by conversation, one for each step."""
OURS, THEIRS = "entrepot", "proxy"
ABSENT: Final = "-"


def kept(server: str) -> Answers:
    """The answers of a server that were recorded last."""
    found: Answers = json.loads(_path(server).read_bytes())
    return found


def keep(server: str, answers: Answers) -> None:
    """Record answers, a conversation in each line."""
    lines = (f"{_json(name)}: {_json(answers[name])}" for name in sorted(answers))
    _path(server).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def differing(ours: list[Answer], theirs: list[Answer]) -> dict[str, tuple[Any, Any]]:
    """Fields with another value, by path: ours and theirs, ABSENT where there is none."""
    mine, others = dict(_fields(ours)), dict(_fields(theirs))
    return {
        path: (mine.get(path, ABSENT), others.get(path, ABSENT))
        for path in sorted({*mine, *others})
        if mine.get(path, ABSENT) != others.get(path, ABSENT)
    }


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values in a document by path; an empty list or object is a value."""
    if isinstance(value, Mapping) and value:
        for name, each in value.items():
            yield from _fields(each, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from _fields(each, f"{path}.{number}" if path else str(number))
    else:
        yield path, str(value)


def _path(server: str) -> Path:
    return Path(__file__).with_name(f"{server}.json")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
