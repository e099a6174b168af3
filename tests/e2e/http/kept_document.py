"""The OpenAPI document as the file that people read: docs/openapi.json, written by `make docs`.

A change of the API is a diff of it, which somebody has looked at.  `python -m tests.e2e.http.kept_document docs`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx2

from entrepot.gateway.settings import Settings
from tests.support.http.server import serving

PAGE: Final = "openapi.json"
WIDTH: Final = 118


def laid_out(node: Any, indent: int = 0) -> str:
    """JSON, in which what fits into a line is in one."""
    line = json.dumps(node, ensure_ascii=False)
    if not isinstance(node, dict | list) or len(line) + indent <= WIDTH:
        return line
    below = " " * (indent + 1)
    if isinstance(node, dict):
        parts = [f"{json.dumps(name)}: {laid_out(value, indent + 1)}" for name, value in node.items()]
        opening, closing = "{}"
    else:
        parts = [laid_out(value, indent + 1) for value in node]
        opening, closing = "[]"
    return f"{opening}\n{below}" + f",\n{below}".join(parts) + f"\n{' ' * indent}{closing}"


def write(directory: Path) -> None:
    with TemporaryDirectory() as data, serving("memory", Path(data), Settings()) as running:
        found = httpx2.get(f"{running.url}/openapi.json").raise_for_status().json()
    (directory / PAGE).write_text(laid_out(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
