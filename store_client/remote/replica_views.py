"""Replicas of a broker as operators see them, from their own views or from their master's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from entrepot.domain.ports.cluster import AWAY, BrokerStatus, ReplicaView
from entrepot.domain.replication.mastership import Appointment
from entrepot.protocols.wire.operations import ReplicaStatus


def seen_by_themselves(
    status: BrokerStatus, addresses: Mapping[int, str], told: Mapping[int, ReplicaStatus]
) -> BrokerStatus:
    """Return a broker with its replicas; those that do not answer are away, in their master's view."""
    latest = max((each.appointment for each in told.values()), key=lambda each: each.order, default=Appointment())
    master = told.get(latest.master)
    views = []
    for replica, address in sorted(addresses.items()):
        if replica in told:
            views.append(seen_by_itself(told[replica], address, master, latest))
        else:
            kept = ReplicaView(replica, address, AWAY) if master is None else _as_slave(replica, address, master)
            views.append(replace(kept, role=AWAY, problem="it does not answer"))
    return replace(status, rule=latest.rule.text, epoch=latest.epoch, replicas=tuple(views))


def seen_by_master(status: BrokerStatus, addresses: Mapping[int, str], master: ReplicaStatus) -> BrokerStatus:
    """Return a broker with its replicas, if the master alone was asked."""
    views = [
        seen_by_itself(master, address, master, master.appointment)
        if replica == master.member.replica
        else _as_slave(replica, address, master)
        for replica, address in sorted(addresses.items())
    ]
    return replace(status, rule=master.appointment.rule.text, epoch=master.epoch, replicas=tuple(views))


def seen_by_itself(
    own: ReplicaStatus, address: str, master: ReplicaStatus | None, latest: Appointment | None = None
) -> ReplicaView:
    """Return the view of a replica that was asked.  `master`: the master's own view, if known.  `latest`: the latest
    appointment known to any replica."""
    known = latest or (own if master is None else master).appointment
    behind, seconds = None, None
    if master is not None and master.is_open:
        behind = max(master.end - own.synced, 0)
        slave = master.slaves.get(own.member.replica)
        seconds = (None if slave is None else slave.behind_seconds) if behind else 0.0
    is_in_sync = own.member in known.members
    return ReplicaView(
        own.member.replica,
        address,
        own.role,
        is_in_sync,
        own.epoch,
        own.synced,
        behind,
        seconds,
        own.problem,
        own.log,
        not known.counts(own.member.replica),
        own.control_problem,
    )


def _as_slave(replica: int, address: str, master: ReplicaStatus) -> ReplicaView:
    slave, is_observer = master.slaves.get(replica), not master.appointment.counts(replica)
    is_member = any(member.replica == replica for member in master.appointment.members)
    if slave is None:
        return ReplicaView(
            replica, address, AWAY, is_member, problem="its master has not heard of it", is_observer=is_observer
        )
    return ReplicaView(
        replica,
        address,
        "slave" if slave.is_following else AWAY,
        slave.is_in_sync,
        master.epoch,
        slave.acknowledged,
        max(master.end - slave.acknowledged, 0),
        slave.behind_seconds,
        "" if slave.is_following else "it does not follow its master",
        is_observer=is_observer,
    )
