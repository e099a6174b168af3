"""Brokers: list, drain, remove, elect a master.  A store in this process has no brokers."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.domain.backups import BackupStatus
from entrepot.domain.cluster import BrokerStatus, ClusterControl, Clustered, ElectionView
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.control import ReplicaChange
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.operations.times import time_shape
from entrepot.gateway.replica_shape import replica_shape


class BrokerChange(Body):
    """Change of a broker."""

    is_draining: bool


class Election(Body):
    """The replica that is to become the broker's master."""

    to: int = Field(0, ge=0, le=99)
    without: list[int] = Field([], max_length=99)
    is_unclean: bool = False


class ReplicaCounting(Body):
    """The role of a replica: a member of the group, or an observer that only copies the log."""

    is_observer: bool


def broker_routes(context: HttpContext) -> Routes:
    """The routes of brokers, which are in no namespace."""
    routes = Routes(["brokers"], PREFIX)
    _add(routes.plain, context)
    return routes


def _add(router: Router, context: HttpContext) -> None:
    @router.get("/brokers", cluster(Action.LIST), summary="List all brokers with their load, and all name servers")
    async def list_brokers() -> Response:
        control = control_of(context)
        brokers = [] if control is None else await control.brokers()
        name_servers = {} if control is None else control.name_servers()
        return json_answer(
            {
                "value": [broker_shape(each) for each in brokers],
                "nameServers": [{"address": address, "isAvailable": up} for address, up in name_servers.items()],
            }
        )

    @router.put("/brokers/{name}", cluster(Action.UPDATE), summary="Drain or undrain a broker")
    async def put_broker(request: Request, name: str) -> Response:
        change = await body_of(request, context, BrokerChange)
        tell(request, detail="to be drained" if change.is_draining else "to be drained no more")
        status = await needed_control(context).drain(name_in_path(name), is_draining=change.is_draining)
        return json_answer(broker_shape(status))

    @router.post(
        "/brokers/{name}:elect",
        cluster(Action.UPDATE),
        change="master elected",
        summary="Make a replica the master of its broker",
    )
    async def elect_master(request: Request, name: str) -> Response:
        asked = await body_of(request, context, Election)
        tell(request, detail=_asked(asked))
        control = needed_control(context)
        status = await control.elect(name_in_path(name), asked.to, asked.without, is_unclean=asked.is_unclean)
        return json_answer(broker_shape(status))

    @router.get("/brokers/{name}/backup", cluster(Action.GET), summary="Show a broker's backup of itself")
    async def get_backup(name: str) -> Response:
        found = await needed_control(context).backup(name_in_path(name), is_to_start=False)
        return json_answer(_backup_shape(found))

    @router.post(
        "/brokers/{name}:backup",
        cluster(Action.UPDATE),
        change="backup started",
        summary="Have a broker bring its backup up to date",
    )
    async def start_backup(name: str) -> Response:
        found = await needed_control(context).backup(name_in_path(name), is_to_start=True)
        return json_answer(_backup_shape(found))

    @router.put(
        "/brokers/{name}/replicas/{replica}",
        cluster(Action.UPDATE),
        change="replicas changed",
        summary="Make a replica a counting one, or an observer, which only copies the log",
    )
    async def put_replica(request: Request, name: str, replica: int) -> Response:
        asked = await body_of(request, context, ReplicaCounting)
        change = ReplicaChange.OBSERVER if asked.is_observer else ReplicaChange.ADD
        detail = f"replica {replica} is to {'be an observer' if asked.is_observer else 'count'}"
        tell(request, f"broker {name_in_path(name)}", detail)
        status = await needed_control(context).change_replica(name_in_path(name), replica, change)
        return json_answer(broker_shape(status))

    @router.delete(
        "/brokers/{name}/replicas/{replica}",
        cluster(Action.DELETE),
        change="replicas changed",
        summary="Remove a stopped replica from the counting ones",
        status_code=NO_CONTENT,
    )
    async def delete_replica(request: Request, name: str, replica: int) -> Response:
        tell(request, f"broker {name_in_path(name)}", f"replica {replica} is to count no more")
        await needed_control(context).change_replica(name_in_path(name), replica, ReplicaChange.REMOVE)
        return Response(status_code=NO_CONTENT)

    @router.delete(
        "/brokers/{name}",
        cluster(Action.DELETE),
        change="broker removed",
        summary="Remove a drained broker for good",
        status_code=NO_CONTENT,
    )
    async def delete_broker(name: str) -> Response:
        await needed_control(context).leave(name_in_path(name))
        return Response(status_code=NO_CONTENT)


def _asked(election: Election) -> str:
    words = (
        f"to {election.to}" if election.to else "",
        f"without {', '.join(map(str, election.without))}" if election.without else "",
        "unclean" if election.is_unclean else "",
    )
    return " ".join(filter(None, words))


def control_of(context: HttpContext) -> ClusterControl | None:
    """The control of the cluster's brokers, or None where the store is in this process."""
    return context.store.operations if isinstance(context.store, Clustered) else None


def needed_control(context: HttpContext) -> ClusterControl:
    """As `control_of`.  Raises UNSUPPORTED instead of returning None."""
    control = control_of(context)
    if control is None:
        raise EntrepotError(Code.UNSUPPORTED, "the store is in this process: there are no brokers")
    return control


def broker_shape(status: BrokerStatus) -> dict[str, Any]:
    """Return a broker as JSON."""
    return {
        "name": status.name,
        "number": status.number,
        "address": status.address,
        "zone": status.zone,
        "isAvailable": status.is_available,
        "isDraining": status.is_draining,
        "keepsKeyValues": status.keeps_key_values,
        "problem": status.problem or None,
        "unsettled": status.unsettled,
        "waiting": status.waiting,
        "unread": status.unread,
        "keyValues": status.key_values,
        "rule": status.rule or None,
        "epoch": status.epoch or None,
        "replicas": [replica_shape(each) for each in status.replicas],
        "election": None if status.election is None else _election_shape(status.election),
    }


def _backup_shape(status: BackupStatus) -> dict[str, Any]:
    return {
        "broker": status.broker,
        "place": status.place,
        "began": time_shape(status.began_ms) if status.began_ms else None,
        "isRunning": status.is_running,
        "from": status.begin,
        "to": status.end,
        "taken": time_shape(status.taken_ms) if status.taken_ms else None,
        "copiedBytes": status.copied_bytes,
        "key": status.key or None,
        "problem": status.problem or None,
    }


def _election_shape(election: ElectionView) -> dict[str, Any]:
    return {
        "epoch": election.epoch,
        "reason": election.reason,
        "time": time_shape(election.decided_ms),
        "isUnderWay": election.is_under_way,
        "problem": election.problem or None,
    }
