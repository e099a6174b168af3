"""Rules about the repository itself."""

import ast
import re
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "protocols", "broker", "store_client", "gateway")
UPWARD = re.compile(r"(?:\.\./)+\w[\w./-]*")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")


def tracked() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return ""


def test_imports_keep_their_contracts():
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command, "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_repository_stands_alone():
    """What is referred to by a relative path is in the repository."""
    missing = [
        f"{path.relative_to(ROOT)}: {reference}"
        for path in tracked()
        if path.relative_to(ROOT).parts[0] != "tests"  # tests try paths that lead out
        for reference in UPWARD.findall(text_of(path))
        if not (found := (path.parent / reference).resolve()).exists() or not found.is_relative_to(ROOT)
    ]
    assert missing == []


def test_links_between_documents_lead_somewhere():
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in tracked()
        if path.suffix == ".md"
        for target in LINK.findall(text_of(path))
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_module_says_what_it_is():
    silent = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


OWN_PATTERNS = {
    "domain/regular_expression.py": "holds RE2, and its own patterns are put together of constants",
    "broker/store/sub_topics.py": "topic filters, every level of them escaped, and nothing that goes back",
}
"""Modules that may compile what is not written in them, and why."""


def test_no_pattern_of_users_reaches_re():
    """`re` goes back over what it has read: one pattern stops a process.  `domain.regular_expression` is for those."""
    offenders = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for room in (*ROOMS, "spark_ingest", "deploy")
        for path in (ROOT / room).rglob("*.py")
        if str(path.relative_to(ROOT)) not in OWN_PATTERNS
        for text in [path.read_text()]
        if re.search(r"\b(re|re2|regex)\b", text)  # to parse takes long
        for tree in [ast.parse(text)]
        for call in ast.walk(tree)
        if (isinstance(call, ast.Call) and _is_of_re(call.func) and not _is_constant(call.args[0]))
        or (isinstance(call, ast.ImportFrom) and call.module == "re")
        or (
            isinstance(call, ast.Import)
            and any(
                each.name in ("re2", "regex") or each.asname
                for each in call.names
                if each.name in ("re", "re2", "regex")
            )
        )
    ]
    assert offenders == []


def _is_of_re(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and isinstance(called.value, ast.Name)
        and called.value.id == "re"
        and called.attr != "escape"
    )


def _is_constant(pattern: ast.expr) -> bool:
    """Whether an expression is made of literals, module constants and `re.escape` of them."""
    names = {each.id for each in ast.walk(pattern) if isinstance(each, ast.Name)} - {"re"}
    return all(name.isupper() for name in names) and not any(
        isinstance(each, ast.Attribute) and each.attr not in ("escape",) for each in ast.walk(pattern)
    )


def test_the_rule_on_patterns_finds_what_it_is_for():
    for text, is_constant in (
        ("'a+'", True),
        ("f'{_A}b' + re.escape(_B)", True),
        ("text", False),
        ("f'^{name}'", False),
        ("self.pattern", False),
    ):
        assert _is_constant(ast.parse(text, mode="eval").body) is is_constant, text


SHOWING = ("typer.echo", "click.echo", "print", "sys.stdout.write", "sys.stderr.write", "console.print")
LAST_NAMES = {name.rpartition(".")[2] for name in SHOWING}


def test_what_is_shown_is_made_printable():
    """Names are chosen by whoever connects: a terminal is not to act on them."""
    offenders = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for room in (*ROOMS, "spark_ingest", "deploy")
        for path in (ROOT / room).rglob("*.py")
        for text in [path.read_text()]
        if any(name in text for name in LAST_NAMES)  # to parse takes long
        for call in ast.walk(ast.parse(text))
        if isinstance(call, ast.Call)
        and getattr(call.func, "attr", getattr(call.func, "id", None)) in LAST_NAMES  # the next takes long
        and ast.unparse(call.func) in SHOWING
        and not any(isinstance(each, ast.Name) and each.id.startswith("printable") for each in ast.walk(call.args[0]))
        and not isinstance(call.args[0], ast.Constant)
        and ast.unparse(call.args[0]) != "found.as_json()"  # ASCII
    ]
    assert offenders == []


def test_every_dependency_is_pinned_to_one_version():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9._+!-]+", line)] == []
    pinned = {_normal(line.partition("==")[0]) for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    names = {_normal(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in wanted}  # type: ignore[index]
    assert names - pinned == {"entrepot"}  # its own extras, among those of dev


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_imports_make_no_circles():
    """Imports for types alone are counted: what two modules know of each other is one thing in two files."""
    graph = grimp.build_graph("entrepot")

    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()  # raises CycleError, which names them
