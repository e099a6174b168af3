"""The check of a broker or name server: a connection, a greeting, and its state as a replica."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import NO_TRUST, ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.cluster import ReplicaView
from entrepot.domain.replication.control import ControllerView
from entrepot.protocols.wire.operations import CONTROLLER, REPLICA_HEALTH
from entrepot.store_client.remote.replica_views import seen_by_itself

LEAST_SECONDS: Final = 0.02
"""Least wait for the second answer, where the first took nearly all of the time."""


class Pong(NamedTuple):
    """The result.  `seconds`: time from the first packet until its greeting.  `replica`: None if it is none, or did not
    tell.  `master`: id of the master that it knows, or 0.  `untold`: reason why it did not tell.  `controller`: its own
    view, None if it is none."""

    seconds: float
    replica: ReplicaView | None = None
    master: int = 0
    untold: str = ""
    controller: ControllerView | None = None


async def ping(address: str, *, cluster: str = "", trust: ClusterTrust = NO_TRUST, seconds: float) -> Pong:
    """Greet it as a client of `cluster`, and ask for its state.  Raises
    UNAVAILABLE with the reason at the first failure, since the present state is asked for.  Raises OSError or
    ssl.SSLError for unusable files."""
    settings = LinkSettings(who="ping", cluster=cluster, trust=WireTrust.of_client(trust), connect_seconds=seconds)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    link = Link(address, settings)
    link.start()
    try:
        if not await link.wait_tried(seconds):
            is_late = loop.time() - begun >= seconds
            raise EntrepotError(Code.UNAVAILABLE, f"no greeting within {seconds:g} s" if is_late else link.problem)
        greeted = loop.time() - begun
        return await _health(link, greeted, begun + seconds - loop.time())
    finally:
        await link.close()


async def _health(link: Link, took: float, seconds: float) -> Pong:
    """Ask a replica for its health, and a controller.  Other servers do not answer; their greeting is enough."""
    end = asyncio.get_running_loop().time() + seconds
    try:
        own, master = await link.ask(REPLICA_HEALTH, seconds=max(seconds, LEAST_SECONDS))
    except EntrepotError as error:
        if error.code != Code.BAD_REQUEST:
            return Pong(took, untold=error.message)
        return Pong(took, controller=await _controller(link, end - asyncio.get_running_loop().time()))
    known = own if own.role == "master" else master
    return Pong(took, seen_by_itself(own, link.address, known), own.appointment.master)


async def _controller(link: Link, seconds: float) -> ControllerView | None:
    try:
        view: ControllerView = await link.ask(CONTROLLER, seconds=max(seconds, LEAST_SECONDS))
    except EntrepotError:
        return None
    return view
