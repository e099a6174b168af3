"""Things that actions on messages need, known at both gateways; and what became of them, by REST."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx2

from tests.browser import group_steps
from tests.browser.replicated.site import Site
from tests.support.waiting import wait_until

TOPIC: Final = "/api/v1/topics/{name}"
GROUP: Final = "/api/v1/groups/{name}"
LETTERS: Final = "/api/v1/groups/{name}/dead-letters"
TIMERS: Final = "/api/v1/timers?topic={name}"
RETAINED: Final = "/api/v1/retained?filter={name}/%23"
RESET_TO: Final = 2
"""Offset at which a group goes on, of ten messages."""


def known(site: Site, *paths: str) -> None:
    """A wait until both gateways know all of them."""
    wait_until(lambda: all(root.get(path).is_success for root in site.roots for path in paths), f"{paths} are known")


def values(root: httpx2.Client, path: str, name: str) -> list[dict[str, Any]]:
    """A list, which has to answer."""
    answer = root.get(path.format(name=name))
    assert answer.is_success, answer.text
    found: list[dict[str, Any]] = answer.json()["value"]
    return found


def makes(path: str, *suffixes: str, **body: object) -> Callable[[Site, str], None]:
    """Maker of things of a kind: of the name itself, or one with each suffix."""

    def made(site: Site, name: str) -> None:
        for suffix in suffixes or ("",):
            site.put(path.format(name=name + suffix), **body)

    return made


def in_future(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S")


# -- messages ----------------------------------------------------------------------------------------------------------


def holds_a_message(root: httpx2.Client, name: str) -> bool:
    """True once the topic has one message, whose body names the topic."""
    rows = values(root, f"{TOPIC}/messages", name)
    return [name in b64decode(row["body"]).decode() for row in rows] == [True]


def waits(root: httpx2.Client, name: str) -> bool:
    """True once one message of the topic waits for its time."""
    return len(values(root, TIMERS, name)) == 1


def retains(site: Site, name: str) -> None:
    """Three retained messages, below the name."""
    group_steps.keep(site.gateways[0], {f"{name}/{number}": name.encode() for number in range(3)})
    wait_until(lambda: all(len(values(root, RETAINED, name)) == 3 for root in site.roots), "they are retained")


def are_retained(*left: int) -> Callable[[httpx2.Client, str], bool]:
    """True once only these are left of `retains`."""
    return lambda root, name: [each["name"] for each in values(root, RETAINED, name)] == [f"{name}/{n}" for n in left]


def schedules(site: Site, name: str) -> None:
    """A message that comes in two hours."""
    makes(TOPIC, queues=1)(site, name)
    group_steps.schedule(site.roots[0], name, 1)
    wait_until(lambda: all(waits(root, name) for root in site.roots), "it waits")


def comes_later(root: httpx2.Client, name: str) -> bool:
    """True once the message of `schedules` comes in more than two hours."""
    return [each["deliverAt"] > in_future(3) for each in values(root, TIMERS, name)] == [True]


# -- groups ------------------------------------------------------------------------------------------------------------


def falls_behind(site: Site, name: str) -> None:
    """A group that has settled seven of ten messages of its topic."""
    group_steps.fall_behind(site.roots[0], name, name)
    known(site, GROUP.format(name=name), TOPIC.format(name=name))


def reads_two_queues(site: Site, name: str) -> None:
    """A group that has settled ten messages of two queues."""
    group_steps.make(site.roots[0], f"topics/{name}", queues=2)
    group_steps.make(site.roots[0], f"groups/{name}")
    group_steps.publish(site.roots[0], name, *map(group_steps.event, range(10)))
    left = 10
    while left:
        received = group_steps.receive(site.roots[0], name, name)
        group_steps.settle(site.roots[0], "acknowledge", name, name, received)
        left -= len(received)
    known(site, GROUP.format(name=name), TOPIC.format(name=name))


def has_read_nothing(site: Site, name: str) -> None:
    """A group, and a topic with ten messages that it does not read."""
    makes(GROUP)(site, name)
    makes(TOPIC, queues=1)(site, name)
    group_steps.publish(site.roots[0], name, *map(group_steps.event, range(10)))


def is_behind(*lags: int) -> Callable[[httpx2.Client, str], bool]:
    """True once the queues of a group's topic have these lags."""

    def is_so(root: httpx2.Client, name: str) -> bool:
        return [each["lag"] for each in values(root, f"{GROUP}/lag?topic={{name}}", name)] == [str(lag) for lag in lags]

    return is_so


# -- dead letters ------------------------------------------------------------------------------------------------------


def gives_up(site: Site, name: str) -> None:
    """A group with dead letters: three were rejected, of two every attempt failed."""
    group_steps.give_up(site.roots[0], name)
    wait_until(lambda: all(are_dead(*range(5))(root, name) for root in site.roots), "all are dead everywhere")


def are_dead(*offsets: int) -> Callable[[httpx2.Client, str], bool]:
    """True once these dead letters alone are left."""

    def is_so(root: httpx2.Client, name: str) -> bool:
        answer = root.get(LETTERS.format(name=name))
        return answer.is_success and [each["offset"] for each in answer.json()["value"]] == list(offsets)

    return is_so


def come_again(*offsets: int) -> Callable[[httpx2.Client, str], bool]:
    """True once the group receives the messages of these dead letters, and no others."""

    def is_so(root: httpx2.Client, name: str) -> bool:
        lag = root.get(f"/api/v1/groups/{name}/lag").json()["lag"]
        if lag != str(len(offsets)):
            return False
        received = group_steps.receive(root, f"of-{name}", name)
        wanted = {group_steps.HOSTILE if offset == 0 else str(offset) for offset in offsets}
        return {each["event"]["id"] for each in received} == wanted

    return is_so
