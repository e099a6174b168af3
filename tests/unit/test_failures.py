"""The table of failures says what the marks of tests say, today; a mark that makes no row is told with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.failures.rows import GROUPS, WrongMarkError, collect
from tests.failures.table import BEGIN, END, PAGE, ROOT, page, table, write
from tests.support.cases import cases

COMMAND = re.compile(r"(?:entrepot )?((?:cluster|store|tier|ping)(?: [a-z]+)*)")
ROW = '@pytest.mark.failure("A cable is cut", group="Network", does="It is slow.", lost="nothing"{more})\n'


def made(root: Path, text: str, name: str = "test_a.py") -> Path:
    (root / "tests" / "room").mkdir(parents=True, exist_ok=True)
    (root / "tests" / "room" / name).write_text(text)
    return root


def test_the_table_is_current() -> None:
    text = (ROOT / "docs" / PAGE).read_text(encoding="utf-8")
    assert text == page(text), "make docs writes it anew"


def test_every_group_has_rows_and_every_row_its_tests() -> None:
    rows = collect(ROOT)
    assert [group for group in GROUPS if group not in {row.group for row in rows}] == []
    assert len({row.fails for row in rows}) == len(rows) > 40
    for test in {test for row in rows for test in row.tests}:
        path, _, name = test.partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (ROOT / path).read_text()


def test_what_rows_name_is_there() -> None:
    """Settings, metrics and commands: each is in its reference."""
    pages = {
        name: (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("settings", "operations", "cli")
    }
    missing = []
    for row in collect(ROOT):
        for name in re.findall(r"`([^`]+)`", f"{row.fails} {row.does} {row.lost} {row.told}"):
            command = COMMAND.match(name)
            if name.startswith("entrepot_"):
                is_there = name.partition("{")[0] in pages["operations"]
            elif re.fullmatch(r"[a-z]+\.[a-z_]+", name):
                is_there = f"| `{name}` |" in pages["settings"]
            else:
                is_there = command is None or f"# entrepot {command[1]}\n" in pages["cli"]
            if not is_there:
                missing.append((row.tests[0], name))
    assert missing == []


def test_a_row_is_read_with_all_its_tests(tmp_path: Path) -> None:
    told, other = ROW.format(more=', told="the log " "and `cluster show`"'), ROW.format(more="").replace("cable", "net")
    made(tmp_path, f"{told}async def test_one(): ...\nclass Two:\n    {other}    def test_x(self): ...")
    made(tmp_path, '@pytest.mark.failure_also("A cable is cut")\ndef test_more(): ...', "test_b.py")
    lines = table(collect(tmp_path)).splitlines()
    assert lines[0] == "### Network"
    assert lines[4:6] == [
        "| A cable is cut | It is slow. | nothing | the log and `cluster show` | `tests/room/test_a.py::test_one`<br>"
        "`tests/room/test_b.py::test_more` |",
        "| A net is cut | It is slow. | nothing |  | `tests/room/test_a.py::Two::test_x` |",
    ]


@cases(
    ("mark", "problem"),
    [
        (ROW.format(more="") * 2, "states the row 'A cable is cut' already"),
        ('@pytest.mark.failure("A cable is cut", group="Network", does="It is slow.")', "the row has no lost"),
        (ROW.format(more=', cost="much"'), "a row has no field cost"),
        (ROW.format(more="").replace("Network", "Cables"), "there is no group 'Cables'"),
        (ROW.format(more="").replace("It is slow.", "slow " * 26), "'does' has 1 to 25 words"),
        (ROW.format(more="").replace('"nothing"', "NOTHING"), "the fields of a row are plain texts"),
        ('@pytest.mark.failure(group="Network", does="It is slow.", lost="nothing")', "begins with what fails"),
        ("@pytest.mark.failure", "a row is stated at a test, with its fields"),
        ('@pytest.mark.failure_also("A net is cut")', "no test states the row 'A net is cut'"),
    ],
)
def test_a_mark_that_makes_no_row_is_told(mark: str, problem: str, tmp_path: Path) -> None:
    made(tmp_path, f"{mark}\ndef test_one(): ...")
    with pytest.raises(WrongMarkError, match=problem) as told:
        collect(tmp_path)
    assert str(told.value).startswith("tests/room/test_a.py::test_one: ")


def test_a_row_stands_at_a_test_alone(tmp_path: Path) -> None:
    made(tmp_path, f"{ROW.format(more='')}def helps(): ...")
    with pytest.raises(WrongMarkError, match="stated at a test"):
        collect(tmp_path)


def test_the_rest_of_the_page_stays(tmp_path: Path) -> None:
    (tmp_path / PAGE).write_text(f"# Before\n\n{BEGIN}\n\nof old\n{END}\n\nAfter.\n")
    write(tmp_path)
    text = (tmp_path / PAGE).read_text()
    assert text.startswith(f"# Before\n\n{BEGIN}\n\n### {GROUPS[0]}\n") and text.endswith(f"\n{END}\n\nAfter.\n")
    assert "of old" not in text and page(text) == text
    for wrong in ("", BEGIN, f"{END}{BEGIN}", f"{BEGIN}{END}{END}", f"{BEGIN}{BEGIN}{END}"):
        with pytest.raises(ValueError, match="has not its two comments"):
            page(wrong)
