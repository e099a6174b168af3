"""Rules of background work: tasks are started by the register, and a loop survives more than the errors it expects."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("domain", "protocols", "broker", "store_client", "gateway", "spark_ingest")
REGISTER = "domain/background.py"

LASTING = re.compile(r'\b(PeriodicWork|keep)\(\s*"([^"]+)"')
"""Work that goes on for ever, with its name."""

AWAITED = {
    "broker/remoting/listener.py": "a request, which answers for its own errors",
    "broker/replication/comparing.py": "awaited by whoever asked",
    "broker/ports/thawing.py": "awaited by the readers of the segment",
    "store_client/remote/popping.py": "awaited by the pop",
    "store_client/rocketmq/routes.py": "awaited by all who ask for that route",
    "gateway/shovel/shovel.py": "a TaskGroup awaits them",
    "gateway/shovel/queue_shovel.py": "awaited at the end of the shovel",
    "gateway/bridge/leased.py": "awaited by the bridge's run, which is kept, and by a TaskGroup of it",
    "gateway/bridge/rocketmq/positions.py": "awaited by whoever asks for the position",
    "gateway/http/requests/asgi.py": "awaited by the request",
    "gateway/operations/nouns/pull_delivery.py": "awaited by the request",
    "gateway/http/streaming/event_socket.py": "awaited by the connection",
    "gateway/rocketmq/frontend.py": "awaited by the call",
    "gateway/rocketmq/grpc/answers.py": "a call, which answers for its own errors",
    "gateway/security/passwords.py": "awaited by all logins with that password",
    "gateway/messaging/leased_consumer.py": "awaited by the consumer's close",
    "gateway/messaging/release.py": "its own callback logs the error",
    "gateway/mqtt/shares/groups.py": "awaited by the subscribe",
    "gateway/mqtt/shares/pump.py": "it survives its errors; its own callback tells",
    "gateway/amqp/feeds/queue_feed.py": "its own callback tells, and looks again",
}
"""Modules that make tasks themselves, and who gets their errors."""

ASKED = {
    ("broker/replication/copying.py", "_copy_from"): "part of started work: the master sends what is not copied",
    ("broker/tiered/tier.py", "_run"): "kept",
    ("gateway/bridge/leased.py", "run"): "called by the kept `Bridges._run`",
    ("gateway/bridge/rocketmq/inbound.py", "_passing"): "part of the bridge's run",
    ("gateway/bridge/lease.py", "keep"): "part of the bridge's run",
    ("gateway/operations/nouns/dead_letters.py", "_lines"): "one request",
    ("gateway/http/streaming/event_socket.py", "_listen"): "one connection",
    ("gateway/http/streaming/event_socket.py", "_push"): "one connection",
    ("gateway/key_values/watched_keys.py", "start"): "the start of the server",
    ("gateway/member/member.py", "start"): "the start of the server",
    ("gateway/rocketmq/lite.py", "_subscription"): "one request",
    ("gateway/security/shared_secret.py", "shared_secret"): "the start of the server",
}
"""Loops that expect only an EntrepotError, and why another error ends no more than it may."""


@cache
def texts() -> dict[str, str]:
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def with_tasks() -> Iterator[tuple[str, ast.Module]]:
    """The modules that may make tasks: only these are parsed."""
    for path, text in texts().items():
        if "create_task" in text or "ensure_future" in text:
            yield path, ast.parse(text)


def with_loops() -> Iterator[tuple[str, ast.Module]]:
    """The modules that may have a loop that expects only an EntrepotError."""
    for path, text in texts().items():
        if "async def" in text and "while " in text and "except" in text and "EntrepotError" in text:
            yield path, ast.parse(text)


def made_tasks(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("create_task", "ensure_future"):
                yield node


def kept(tree: ast.Module) -> set[str]:
    """Names of the functions that the module gives to `keep`, also by `partial`."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "keep":
            for argument in node.args:
                found |= {each.attr for each in ast.walk(argument) if isinstance(each, ast.Attribute)}
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "partial":
            found |= {each.attr for each in node.args[:1] if isinstance(each, ast.Attribute)}
    return found


def narrow_loops(tree: ast.Module) -> Iterator[str]:
    """Functions with a `while` in which a `try` expects an EntrepotError and no other error."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        loops = [node for node in ast.walk(function) if isinstance(node, ast.While)]
        for attempt in (node for loop in loops for node in ast.walk(loop) if isinstance(node, ast.Try)):
            expected = {name for handler in attempt.handlers for name in names_of(handler)}
            if "EntrepotError" in expected and not expected & {"Exception", "BaseException", ""}:
                yield function.name


def names_of(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return [""]
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [ast.unparse(kind) for kind in kinds]


def test_the_register_makes_the_tasks() -> None:
    made = Counter(path for path, tree in with_tasks() if path != REGISTER for _ in made_tasks(tree))
    strangers = {path: count for path, count in made.items() if path not in AWAITED}
    assert strangers == {}, "background().keep or .start; or say in AWAITED who gets the error"
    assert set(AWAITED) <= set(made), "an exception that is needed no more"


def test_loops_survive_errors_they_do_not_expect() -> None:
    found = {(path, name) for path, tree in with_loops() for name in narrow_loops(tree) if name not in kept(tree)}
    assert found - set(ASKED) == set(), "keep the loop, or catch Exception for one item; or say in ASKED why not"


def test_all_lasting_work_is_in_the_table_of_operators() -> None:
    made = {
        f"| `{name}` | {'in periods' if kind == 'PeriodicWork' else 'always'} | `{path}` |"
        for path, text in texts().items()
        for kind, name in LASTING.findall(text)
    }
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.partition("### Background work\n")[2].partition("\n### ")[0]
    told = {line for line in section.splitlines() if line.startswith("| `")}
    assert told == made, "docs/operations.md has a row for each"
    steps = re.findall(r'^            "([a-z ]+)": self\.', texts()["broker/broker.py"], re.MULTILINE)
    assert steps and [each for each in steps if f"`{each}`" not in section] == []


def test_the_rules_find_what_they_are_for() -> None:
    tree = ast.parse(
        """
class Sweeps:
    def start(self):
        self.task = loop.create_task(self.narrow())
        self.other = background().keep("x", partial(self.kept_one, 1))

    async def narrow(self):
        while True:
            try:
                await step()
            except (OSError, EntrepotError):
                pass

    async def kept_one(self):
        while True:
            try:
                await step()
            except EntrepotError:
                pass

    async def wide(self):
        while True:
            try:
                await step()
            except EntrepotError:
                pass
            except Exception:
                pass
"""
    )
    assert len(list(made_tasks(tree))) == 1
    assert sorted(narrow_loops(tree)) == ["kept_one", "narrow"]
    assert kept(tree) == {"kept_one"}
