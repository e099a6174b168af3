"""The main lines of the kept ways as a part of the map: one table a way, made of the files' own words."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from tests.walks.recording import ROOT, WAYS, kept_steps

MAP: Final = ROOT / "ARCHITECTURE.md"
BEGIN: Final = "<!-- ways: written by python -m tests.walks -->\n"
END: Final = "<!-- end of the ways -->\n"
TITLES: Final = {
    "mqtt_publish": "PUBLISH to PUBACK (MQTT)",
    "amqp_confirm": "basic.publish to its confirm (AMQP)",
    "amqp_delivery": "basic.ack to the next basic.deliver (AMQP)",
    "http_pull": "a pull of events (HTTP), the store in this process",
    "http_pull_over_the_wire": "a pull of events (HTTP), the broker elsewhere",
}
_SENTENCE: Final = re.compile(r"(?<=[.:])\s")


def _what(file: Path) -> str:
    """Return what a file says of itself first, without its name."""
    said = ast.get_docstring(ast.parse(file.read_text())) or ""
    first = _SENTENCE.split(" ".join(said.partition("\n\n")[0].split()))
    words = first[1] if first[0].endswith(":") and len(first) > 1 else first[0]
    return words.rstrip(".:")


def _table(name: str) -> str:
    lines = (WAYS / f"{name}.txt").read_text().splitlines()[2:]
    main_line, every = kept_steps((WAYS / f"{name}.txt").read_text())
    asked = len(every) - len(main_line)
    rows = [f"| `{file}` | {_what(ROOT / file)} |" for line in lines if (file := line.split()[0]) in main_line]
    head = (
        f"**{TITLES[name]}**: {len(main_line)} files, which ask {asked} others.\n\n| file | what it is |\n|---|---|\n"
    )
    return head + "\n".join(rows) + "\n"


def shown() -> str:
    """Return the part of the map."""
    return BEGIN + "\n" + "\n".join(map(_table, TITLES)) + "\n" + END


def write() -> None:
    """Write the part of the map anew."""
    text = MAP.read_text()
    before, _, rest = text.partition(BEGIN)
    MAP.write_text(before + shown() + rest.partition(END)[2])
