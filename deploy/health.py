"""Health of a deployment: all problems in words, as its gateways and controllers tell."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from deploy.plan import Part, Plan
from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.control import ControllerView
from entrepot.gateway.cli.client import Client, segment
from entrepot.gateway.cli.errors import CommandError
from entrepot.protocols.wire import operations as wire

ASK_SECONDS: Final = 5.0
ELECT_SECONDS: Final = 60.0
MAX_BEHIND_SECONDS: Final = 1.0
"""Largest lag of a healthy slave, as for `entrepot ping --ready`."""


class Health:
    """Health of the deployment of a plan. Empty lists and texts mean health."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def problems(self) -> list[str]:
        """All problems."""
        found = [f"{part.name}: {why}" for part in self._plan.of("gateway") if (why := self._unready(part))]
        found += [f"{part.name}: {why}" for part in self._plan.part if part.elects and (why := self._unable(part))]
        for gateway in () if found else self._plan.of("gateway"):
            found += [f"{gateway.name}: {why}" for why in self._seen_by(gateway)]
        return found

    def master(self, broker: str) -> int:
        """Id of the replica that is master; 0 without a master or replicas."""
        for gateway in self._plan.of("gateway"):
            try:
                told = Client(gateway.address, ASK_SECONDS).get("/api/v1/brokers")
            except CommandError:
                continue
            replicas = [each for found in told["value"] if found["name"] == broker for each in found["replicas"]]
            return next((int(each["replica"]) for each in replicas if each["role"] == "master"), 0)
        return 0

    def elect(self, broker: str, to: int) -> None:
        """Move the mastership by hand. Raises CommandError."""
        gateway = self._plan.of("gateway")[0]
        path = f"/api/v1/brokers/{segment(broker)}:elect"
        Client(gateway.address, ELECT_SECONDS).request("POST", path, body={"to": to})

    def _unready(self, gateway: Part) -> str:
        try:
            Client(gateway.address, ASK_SECONDS).get("/readyz")
        except CommandError as error:
            return str(error)
        return ""

    # -- brokers and name servers --------------------------------------------------------------------------------

    def _seen_by(self, gateway: Part) -> list[str]:
        try:
            told = Client(gateway.address, ASK_SECONDS).get("/api/v1/brokers")
        except CommandError as error:
            return [str(error)]
        found = [f"name server {each['address']} is away" for each in told["nameServers"] if not each["isAvailable"]]
        brokers = {each["name"]: each for each in told["value"]}
        for name, parts in self._plan.brokers.items():
            if name not in brokers:
                found.append(f"it has not found {name}")
            else:
                found += [f"{name}: {why}" for why in broker_problems(brokers[name], parts)]
        return found

    # -- controllers ---------------------------------------------------------------------------------------------

    def _unable(self, part: Part) -> str:
        """The reason why a controller could elect nobody, or ""."""
        try:
            return asyncio.run(self._asked(part.address)).problem
        except EntrepotError as error:
            return error.message
        except OSError as error:  # of certificates
            return str(error)

    async def _asked(self, address: str) -> ControllerView:
        cluster = self._plan.cluster
        settings = LinkSettings(
            who="rolling restart",
            cluster=cluster.name,
            trust=WireTrust.of_client(cluster.trust),
            connect_seconds=ASK_SECONDS,
        )
        link = Link(address, settings)
        link.start()
        try:
            await link.wait_tried(ASK_SECONDS)
            view: ControllerView = await link.ask(wire.CONTROLLER, seconds=ASK_SECONDS)
            return view
        finally:
            await link.close()


def broker_problems(broker: dict[str, Any], parts: list[Part]) -> list[str]:
    """The problems of a broker in `/api/v1/brokers`."""
    if not broker["isAvailable"]:
        return [broker["problem"] or "it is away"]
    listed = {each["replica"]: each for each in broker["replicas"]}
    wanted = {part.replica for part in parts if part.replica}
    found = [f"there is no replica {replica}" for replica in sorted(wanted - listed.keys())]
    found += [f"replica {replica}: {why}" for replica, each in listed.items() if (why := _replica_problem(each))]
    masters = [replica for replica, each in listed.items() if each["role"] == "master"]
    if listed and len(masters) != 1:
        found.append(f"it has {len(masters)} masters")
    return found


def _replica_problem(replica: dict[str, Any]) -> str:
    if replica["problem"]:
        return str(replica["problem"])
    if replica["role"] == "master":
        return ""
    if replica["role"] != "slave":
        return f"it is {replica['role']}"
    if not (replica["isInSync"] or replica["isObserver"]):
        return "it is not in sync"
    seconds = replica["behindSeconds"]
    if seconds is None or seconds > MAX_BEHIND_SECONDS:
        return "its lag is not known yet" if seconds is None else f"it is {seconds:.1f} s behind"
    return ""
