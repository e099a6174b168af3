"""Which tier a test or one of its parameters is in.

A test is in `default` unless a mark says `interop` or `soak`; of both, `soak` decides.  A parameter may carry one, too:
`soak_only("remote")`.
`everywhere` at a test takes all its parameters into `default`, but for those of `interop`.  A test with `scaled` is in
`default` and in `soak`, where it runs longer (`scaled(2, 10)`); property tests are so by themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import pytest

T = TypeVar("T")

TIERS: Final = ("default", "interop", "soak")
CHOICES: Final = (*TIERS, "rest", "all")
"""`rest`: interop and soak."""

_chosen = "default"


def choose(tier: str) -> None:
    """The tier of this run; the plugin says it before tests are imported."""
    global _chosen
    _chosen = tier


def scaled(default: T, soak: T) -> T:
    """A count or a length of the tier that runs."""
    return soak if _chosen in ("soak", "rest") else default


def soak_only(*values: Any, name: str | None = None) -> Any:
    """A parameter that runs in the soak tier alone."""
    return pytest.param(*values, marks=pytest.mark.soak, id=name)


def interop_only(*values: Any, name: str | None = None) -> Any:
    """A parameter that runs in the interop tier alone."""
    return pytest.param(*values, marks=pytest.mark.interop, id=name)


def tiers_of(marks: Iterable[str], *, is_property: bool = False) -> set[str]:
    """The tiers of what has these marks: those of a parameter and of its test together."""
    names = set(marks)
    tiers = {next((tier for tier in ("soak", "interop") if tier in names), "default")}
    if "everywhere" in names and "interop" not in names:
        tiers.add("default")
    if "default" in tiers and (is_property or "scaled" in names):
        tiers.add("soak")
    return tiers


def is_chosen(tiers: set[str]) -> bool:
    """True where this run has one of these tiers."""
    if _chosen == "all":
        return True
    return bool(tiers & ({"interop", "soak"} if _chosen == "rest" else {_chosen}))
