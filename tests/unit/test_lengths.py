"""No function has more than fifty lines, no file more than four hundred: each is read at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = (
    "benchmarks",
    "broker",
    "deploy",
    "domain",
    "examples",
    "gateway",
    "protocols",
    "spark_ingest",
    "store_client",
)
MAX_FUNCTION_LINES: Final = 50
MAX_FILE_LINES: Final = 400
GENERATED: Final = "_pb2.py"


def too_long(name: str, text: str) -> Iterator[str]:
    """Yield a line for a file, and for each of its functions, that is too long."""
    lines = len(text.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{name}: {lines} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{name}: {node.name} has {lines} lines"


def test_files_and_functions_are_short() -> None:
    found = [
        each
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.name.endswith(GENERATED)
        for each in too_long(str(path.relative_to(ROOT)), path.read_text())
    ]
    assert found == []


def test_what_is_too_long_is_found() -> None:
    assert list(too_long("a.py", function_of(50))) == []
    assert list(too_long("a.py", function_of(51))) == ["a.py: taken has 51 lines"]
    assert list(too_long("a.py", "class A:\n    async " + function_of(51, 8))) == ["a.py: taken has 51 lines"]
    assert list(too_long("a.py", "pass\n" * 400)) == []
    assert list(too_long("a.py", "pass\n" * 401)) == ["a.py: 401 lines"]


def function_of(lines: int, indent: int = 4) -> str:
    return "def taken():\n" + (" " * indent + "pass\n") * (lines - 1)
