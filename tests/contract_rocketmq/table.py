"""The part of the contract of all stores, and of the doors' tests, that a RocketMQ cluster carries, as
docs/rocketmq-cluster.md shows it."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Final

from tests.contract_rocketmq.carried import BY_OTHER_TESTS
from tests.contract_rocketmq.real_differences import DIFFERENT, LEFT_OUT, NOT_TRIED
from tests.e2e.rocketmq_exceptions import ALL
from tests.e2e.rocketmq_exceptions import DIFFERENT as OF_DOORS
from tests.e2e.rocketmq_exceptions import LEFT_OUT as OF_DOORS_BY_CHANCE

FILE: Final = "rocketmq-cluster.md"
BEGIN: Final = "<!-- Made by `make docs` from the contract of all stores; not edited by hand. -->"
END: Final = "<!-- The end of what `make docs` made. -->"
MODULES: Final = (
    *("append_and_read", "fifo", "filters", "limits", "pop", "pop_over", "positions", "pull", "settling", "timers"),
    "transactions",
)
"""Parts of the contract that concern the cluster; key-values have another keeper."""


def _tests(module: str) -> set[str]:
    """Names of the contract's tests of a module."""
    found = vars(import_module(f"tests.contract.test_{module}"))
    return {name for name, each in found.items() if name.startswith("test_") and inspect.isfunction(each)}


def _words(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def table() -> str:
    """Return the table: works, works differently and cannot be carried, with reasons and the tests that show them."""
    works = untried = 0
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module in MODULES:
        refused: Mapping[str, str] = vars(import_module(f"tests.contract_rocketmq.test_shared_{module}"))["NOT_CARRIED"]
        different = {**DIFFERENT.get(module, {}), **LEFT_OUT.get(module, {})}
        for name in sorted(_tests(module)):
            if name in refused:
                by_reason["not carried", refused[name]].append(name)
            elif name not in different:
                works += 1
            elif different[name] in NOT_TRIED:
                untried += 1
            else:
                by_reason["differently", different[name]].append(name)
    rows = [
        f"| {how} | {reason[0].upper()}{reason[1:]}. | {'; '.join(map(_words, names))} |"
        for (how, reason), names in sorted(by_reason.items())
        if reason not in BY_OTHER_TESTS
    ]
    head = (
        f"{works} tests of the contract pass at Apache RocketMQ as at our own store. {untried} move their clock, or "
        "count on chance: they run at a model of it.\n\nThe others:\n"
    )
    return "\n".join([head, "| carried | because | tests of the contract |", "|---|---|---|", *rows])


def doors_table() -> str:
    """Return the table of the doors' own tests that do not pass in front of a cluster, with their reasons."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for file, reasons in (*OF_DOORS.items(), *OF_DOORS_BY_CHANCE.items()):
        for name, reason in reasons.items():
            said = "all" if name == ALL else _words(name)
            by_reason[reason].append(f"{_words(file.rpartition('/')[2])}: {said}")
    rows = [
        f"| {reason[0].upper()}{reason[1:]}. | {'; '.join(sorted(names))} |"
        for reason, names in sorted(by_reason.items())
    ]
    head = "The tests of every door, and of webhooks, run in front of RocketMQ, too, but for these:\n"
    return "\n".join([head, "| because | tests of the doors |", "|---|---|", *rows])


def page(text: str) -> str:
    """The page with today's table between its two comments.  Raises ValueError where they are not there once each."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise ValueError(f"{FILE} has not its two comments, once each, around its table")
    return f"{before}{BEGIN}\n\n{table()}\n\n{doors_table()}\n\n{END}{after}"


def write(folder: Path) -> None:
    """Write the table into the page in `folder`."""
    path = folder / FILE
    path.write_text(page(path.read_text(encoding="utf-8")), encoding="utf-8")
