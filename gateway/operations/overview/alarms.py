"""Alarms: what an operator should look at now, decided from the overview alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from entrepot.domain.names import DEFAULT_NAMESPACE, split_name
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.operations.overview.shapes import (
    AlarmShown,
    ClusterOverviewShown,
    Failing,
    GatewayNow,
    LagShown,
    Severity,
)
from entrepot.gateway.operations.row.times import time_text

if TYPE_CHECKING:
    from entrepot.domain.pin import Pin
    from entrepot.gateway.operations.nouns.brokers import BrokerShown
    from entrepot.gateway.operations.row.gathered import Missing

LAG_SECONDS: Final = 120.0
"""Age of a group's oldest unsettled message at which it is an alarm."""
LAG_CRITICAL_SECONDS: Final = 900.0
FILES_SHARE: Final = 0.9
"""Share of the open files that connections may have, at which it is an alarm."""
CLOCK_SECONDS: Final = 60.0
"""Time between a process's clock and the system's at which it is an alarm."""
MAX_PINS: Final = 3
"""Queues that are named as keeping the log."""
DISK_FULL: Final = 2
"""State of the disk at which new messages are refused."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm. `subject` and `text` are a sentence together; `link`: the dashboard's page about it."""

    severity: Severity
    subject: str
    text: str
    link: str


def alarms_of(overview: ClusterOverviewShown, damage: Iterable[str], pins: Iterable[Pin] = ()) -> list[Alarm]:
    """The alarms of an overview, critical ones first.  `damage`: a text each."""
    found = [
        *_of_gateways(overview.answered.missing),
        *_of_open_files(overview.gateways),
        *_of_clocks(overview),
        *_of_brokers(overview.brokers),
        *_of_parts(overview),
        *_of_background(overview),
        *_of_disk(overview.gauges),
        *_of_lags(overview.lags or ()),
        *map(_of_pin, islice(pins, MAX_PINS)),
        *(Alarm(Severity.CRITICAL, "Stored data is damaged", each, "#/cluster") for each in damage),
    ]
    return sorted(found, key=lambda alarm: alarm.severity is not Severity.CRITICAL)


def _of_gateways(missing: list[Missing]) -> list[Alarm]:
    return [
        Alarm(Severity.WARNING, f"Gateway {each.name} does not answer", each.reason, "#/cluster") for each in missing
    ]


def _of_open_files(gateways: list[GatewayNow]) -> list[Alarm]:
    found = []
    for each in gateways:
        files = each.open_files
        if files is None or files.used < FILES_SHARE * files.refused_from:
            continue
        text = f"{files.used:,} of {files.limit:,} files are open, connections are refused from {files.refused_from:,}"
        if files.used >= files.refused_from:
            found.append(Alarm(Severity.CRITICAL, f"Gateway {each.name} refuses connections", text, "#/cluster"))
        else:
            subject = f"Gateway {each.name} has many open files"
            found.append(Alarm(Severity.WARNING, subject, text, "#/cluster"))
    return found


def _of_clocks(overview: ClusterOverviewShown) -> list[Alarm]:
    told = [(f"of gateway {each.name}", each.clock_error_seconds or 0.0) for each in overview.gateways]
    told.append(("of a broker", overview.gauges.get("clock_error_seconds", 0.0)))
    apart = [
        Alarm(Severity.CRITICAL, f"Clock of gateway {each.name}", each.clock_problem, "#/cluster")
        for each in overview.gateways
        if each.clock_problem
    ]
    text = "seconds are between it and the system's: it runs a quarter faster or slower until both are one"
    return apart + [
        Alarm(
            Severity.WARNING,
            f"The system's clock was set under the one {whose}",
            f"{abs(error):,.0f} {text}; restart the process if the system's is right",
            "#/cluster",
        )
        for whose, error in told
        if abs(error) >= CLOCK_SECONDS
    ]


def _of_brokers(brokers: list[BrokerShown]) -> list[Alarm]:
    found = []
    for broker in brokers:
        name = broker.name
        if not broker.is_available:
            text = broker.problem or "it cannot be asked now"
            found.append(Alarm(Severity.CRITICAL, f"Broker {name} is away", text, "#/cluster"))
        elif broker.problem:
            found.append(Alarm(Severity.CRITICAL, f"Broker {name}", broker.problem, "#/cluster"))
        for replica in broker.replicas:
            if reason := replica.control_problem:
                subject = f"Replica {replica.replica} of {name} would not be replaced"
                found.append(Alarm(Severity.WARNING, subject, reason, "#/cluster"))
            if replica.log is not None and replica.log.lost:
                subject = f"Replica {replica.replica} of {name} has given up confirmed messages"
                where = "in its diverged/: entrepot store dump --diverged shows them"
                text = f"{replica.log.lost:,} bytes of them are {where}"
                found.append(Alarm(Severity.CRITICAL, subject, text, "#/cluster"))
            if replica.role == "master" or replica.is_observer or replica.is_in_sync:
                continue
            text = replica.problem or "one more loss may stop publishing there"
            subject = f"Replica {replica.replica} of {name} is not in sync"
            found.append(Alarm(Severity.WARNING, subject, text, "#/cluster"))
    return found


def _of_parts(overview: ClusterOverviewShown) -> list[Alarm]:
    found = [
        Alarm(Severity.WARNING, f"Name server {each.address} is away", "brokers are known from others", "#/cluster")
        for each in overview.name_servers
        if not each.is_available
    ]
    found += [
        Alarm(Severity.WARNING, f"Controller {each.address} is away", each.problem or "no answer", "#/cluster")
        for each in overview.controllers
        if each.state == "away"
    ]
    found += [
        Alarm(Severity.WARNING, f"Bridge {each.name} is not connected", each.last_error or "", "#/bridges")
        for each in overview.bridges
        if each.state is BridgeState.BACK_OFF
    ]
    return found


def _of_background(overview: ClusterOverviewShown) -> list[Alarm]:
    found = [_of_failing(each) for each in overview.failing]
    if overview.brokers and overview.gauges.get("background_faulty", 0):
        text = "the brokers' logs say which and why"
        found.append(Alarm(Severity.WARNING, "Background work of a broker fails", text, "#/cluster"))
    return found


def _of_failing(work: Failing) -> Alarm:
    subject = f"Background work of gateway {work.gateway} fails: {work.work}"
    return Alarm(Severity.WARNING, subject, work.reason, "#/cluster")


def _of_disk(gauges: dict[str, float]) -> list[Alarm]:
    state = gauges.get("disk_state", 0)
    found = []
    if state >= DISK_FULL:
        text = "new messages are refused until there is room"
        found.append(Alarm(Severity.CRITICAL, "A broker's disk is full", text, "#/cluster"))
    elif state >= 1:
        text = "less is free than store.disk_warn_free_bytes"
        found.append(Alarm(Severity.WARNING, "A broker's disk fills up", text, "#/cluster"))
    if gauges.get("tier_problems", 0):
        text = "topics are not uploaded to the object store"
        found.append(Alarm(Severity.WARNING, "The tier has problems", text, "#/cluster"))
    if missing := int(gauges.get("tier_missing_messages", 0)):
        text = f"{missing:,} left the disk before they were uploaded: entrepot tier status"
        found.append(Alarm(Severity.WARNING, "Messages are missing in the object store", text, "#/cluster"))
    return found


def _of_lags(lags: Iterable[LagShown]) -> list[Alarm]:
    found = []
    for lag in lags:
        if lag.seconds is None or lag.seconds < LAG_SECONDS:
            continue
        severity = Severity.CRITICAL if lag.seconds >= LAG_CRITICAL_SECONDS else Severity.WARNING
        subject = f"Group {lag.group} falls behind on {lag.topic}"
        at_least = "" if lag.is_complete else "at least "
        text = f"{at_least}{lag.count:,} messages, the oldest {lag.seconds / 60:,.0f} min old"
        found.append(Alarm(severity, subject, text, _page("groups", lag.namespace, lag.group)))
    return found


def _of_pin(pin: Pin) -> Alarm:
    namespace, topic = split_name(pin.topic)
    subject = f"Old messages of {topic} keep the log"
    text = f"{pin.bytes / (1 << 30):,.1f} GiB of it are kept by queue {pin.queue_id}: {pin.reason}"
    return Alarm(Severity.WARNING, subject, text, _page("topics", namespace, topic))


def _page(kind: str, namespace: str, name: str) -> str:
    where = "" if namespace == DEFAULT_NAMESPACE else f"?namespace={quote(namespace, safe='')}"
    return f"#/{kind}/{quote(name, safe='')}{where}"


class AlarmTimes:
    """Since when each alarm holds; an alarm that ends and comes again is new."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], int] = {}

    def shown(self, alarms: list[Alarm], now_ms: int) -> list[AlarmShown]:
        """Return the alarms with the time of their beginning."""
        self._since = {(each.subject, each.link): self._since.get((each.subject, each.link), now_ms) for each in alarms}
        return [
            AlarmShown(
                each.severity, each.subject, each.text, time_text(self._since[each.subject, each.link]), each.link
            )
            for each in alarms
        ]
