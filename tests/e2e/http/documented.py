"""What the OpenAPI document says of an answer, as tests ask it."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs

SCHEMAS = Path(__file__).parents[2] / "fixtures" / "documents"
"""OpenAPI's and AsyncAPI's own schemas, without their descriptions (Apache License 2.0)."""
METHODS = ("get", "put", "post", "delete", "options")


@cache
def own_schema(name: str) -> Any:
    """The validator of a kind of document."""
    return jsonschema_rs.validator_for(json.loads((SCHEMAS / f"{name}.json").read_text()))


def resolved(document: dict[str, Any], node: Any) -> Any:
    """What a reference leads to."""
    while isinstance(node, dict) and "$ref" in node:
        steps = node["$ref"].removeprefix("#/").split("/")
        node = document
        for step in steps:
            node = node[step]
    return node


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, path and description of each."""
    return [
        (method.upper(), path, told)
        for path, item in document["paths"].items()
        for method, told in item.items()
        if method in METHODS
    ]


class Described:
    """A document that answers are held against: what it does not name is not there."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.seen: set[tuple[str, str, str]] = set()
        """Method, path and status of what was answered."""
        self._validators: dict[str, Any] = {}
        self._components = _closed(document["components"]["schemas"])
        self._paths = [
            (method, re.compile(re.sub(r"\\{[a-z_]+\\}", "[^/]+", re.escape(path))), path, told)
            for method, path, told in operations(document)
        ]

    def operation(self, method: str, url: str) -> tuple[str, dict[str, Any]]:
        """Of a request; where several match, that whose path has the most text of its own."""
        path = url.partition("?")[0]
        found = [each for each in self._paths if each[0] == method and each[1].fullmatch(path)]
        assert found, f"{method} {url} is not in the document"
        best = max(found, key=lambda each: len(re.sub(r"\{[a-z_]+\}", "", each[2])))
        return best[2], best[3]

    def check(self, method: str, url: str, answer: httpx2.Response) -> None:
        """Raise AssertionError where the document says something else of an answer."""
        path, told = self.operation(method, url)
        status = str(answer.status_code)
        self.seen.add((method, path, status))
        where = f"{method} {path} {status}: {answer.text[:300]}"
        if answer.status_code < 400:
            assert status in told["responses"], where
        described = resolved(self.document, told["responses"].get(status, told["responses"]["default"]))
        content = described.get("content", {})
        if not content:
            assert answer.content == b"", where
            return
        [media_type] = content
        if media_type == "*/*":
            return
        assert answer.headers["content-type"].startswith(media_type), where
        if "json" in media_type and "ndjson" not in media_type:
            self._validate(content[media_type]["schema"], answer.json(), where)

    def check_value(self, method: str, url: str, value: Any) -> None:
        """As `check`, for the JSON of an answer with status 200."""
        path, told = self.operation(method, url)
        described = resolved(self.document, told["responses"]["200"])
        self._validate(described["content"]["application/json"]["schema"], value, f"{method} {path}")

    def _validate(self, schema: dict[str, Any], value: Any, where: str) -> None:
        key = json.dumps(schema)
        if key not in self._validators:
            closed = {**_closed(schema), "components": {"schemas": self._components}}
            self._validators[key] = jsonschema_rs.validator_for(closed)
        errors = [f"{each.instance_path}: {each.message}" for each in self._validators[key].iter_errors(value)]
        assert not errors, (where, errors)


def _closed(node: Any, name: str = "") -> Any:
    """The schema without room for members that it does not name.  Events and packets have more."""
    if isinstance(node, list):
        return [_closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: value if key in ("example", "examples", "enum") else _closed(value, key) for key, value in node.items()
    }
    is_object = made.get("type") == "object" and "properties" in made and name not in ("properties",)
    if is_object and "additionalProperties" not in made and "direction" not in made["properties"]:
        made["additionalProperties"] = False
    return made
