"""Every operation of the HTTP door, in each of its places, as tests look at them."""

from __future__ import annotations

from typing import NamedTuple

from entrepot.gateway.operations.all_nouns import TABLE


class Told(NamedTuple):
    """A route.  `is_for_all`: open to everybody, or to super users alone: no right of a name opens it."""

    method: str
    path: str
    change: str
    is_for_supers: bool
    is_for_all: bool


def every_route() -> list[Told]:
    found = []
    for each in TABLE.operations:
        is_super = each.right.is_for_super_users
        is_for_all = is_super or bool(each.right.opened_by)
        found += [Told(each.method, template, each.change, is_super, is_for_all) for template in each.templates]
    return found
