"""Founding: a controller with an empty directory finds its group, or begins one with others that have none.

All controllers in the settings begin a group, once every one of them is there with an empty directory. None begins one
beside an existing group: its register would know of no master, and its votes would be given again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from entrepot.broker.controller.directory import ControllerDirectory, founder, id_of
from entrepot.broker.remoting.link import Link
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.control import ControllerView
from entrepot.protocols.wire import operations as wire

ASK_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.2
log = structlog.get_logger(__name__)


class Founding:
    """The founding of one controller. `links`: to all others of the settings, by id. `problem`: in words, or empty."""

    def __init__(self, directory: ControllerDirectory, links: Mapping[int, Link]) -> None:
        self._directory, self._links = directory, links
        self.problem = "it looks for the other controllers"

    async def run(self) -> None:
        """Return once the directory belongs to a group of controllers."""
        while not self._directory.identity.cluster:
            views = await self._ask_all()
            problem = self._decide(views)
            if problem != self.problem:
                self.problem = problem
                if problem:
                    log.warning("a controller has no group yet", problem=problem)
            if problem:
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask_all(self) -> dict[int, ControllerView]:
        answers = await asyncio.gather(
            *(link.ask(wire.CONTROLLER, seconds=ASK_SECONDS) for link in self._links.values()), return_exceptions=True
        )
        found: dict[int, ControllerView] = {}
        for number, answer in zip(self._links, answers, strict=True):
            if isinstance(answer, ControllerView):
                found[number] = answer
            elif not isinstance(answer, EntrepotError):
                assert isinstance(answer, BaseException)
                raise answer
        return found

    def _decide(self, views: Mapping[int, ControllerView]) -> str:
        """Return the reason to wait; empty once it belongs to a group."""
        own = self._directory.identity
        for number, view in sorted(views.items()):
            if view.controller != number:
                return f"controller {number} is configured where controller {view.controller} is"
            if not view.incarnation:
                return f"controller {number} cannot run: {view.problem}"
        groups = {view.cluster: view for _, view in sorted(views.items()) if view.cluster}
        if len(groups) > 1:
            return "the other controllers are of more than one group"
        if groups:
            [(cluster, view)] = groups.items()
            return self._join(cluster, view)
        if missing := sorted(self._links.keys() - views.keys()):
            return f"a new group of controllers needs all of them: {', '.join(map(str, missing))} does not answer"
        everybody = {own.controller, *self._links}
        if others := [number for number, view in views.items() if {each for each, _ in view.members} != everybody]:
            return f"controller {others[0]} is set up with other controllers than controller {own.controller}"
        self._directory.found([founder(own), *(f"{view.controller}:{view.incarnation}" for view in views.values())])
        return ""

    def _join(self, cluster: str, view: ControllerView) -> str:
        """Join a group: a late founder begins as one; another controller waits until it is taken in."""
        own = self._directory.identity
        if founder(own) in view.founders:
            self._directory.found(view.founders)
        elif own.controller in map(id_of, view.founders):
            return (
                f"controller {own.controller} belongs to the group with another directory: this one is empty, and may "
                "have forgotten votes; remove it (entrepot cluster controller remove), and add one with a new id"
            )
        else:
            self._directory.join(cluster, view.founders)
        return ""
