"""Shapes of the overview: what clients are shown, and what gateways tell each other."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, cast

from msgspec import field

from entrepot.gateway.operations.nouns.bridges import BridgeShown
from entrepot.gateway.operations.nouns.brokers import BrokerShown, NameServerShape
from entrepot.gateway.operations.nouns.controllers import ControllerShown
from entrepot.gateway.operations.row.gathered import AnsweredShown
from entrepot.gateway.operations.row.shapes import EXAMPLES, Like, Part, Shown, Time, shown_as

Figure = Annotated[int | float, Like(float)]
"""A number that may have a fraction, as it was told."""
_TIME: Final = "2026-12-01T08:00:00.000Z"


class Severity(StrEnum):
    """Severity of an alarm."""

    CRITICAL = "critical"
    WARNING = "warning"


# -- what one gateway tells the others: those of other versions may leave out members ----------------------------------


class DoorRates(Part, frozen=True):
    """Present numbers of one door: messages and bytes a second, refusals a minute; None: not known."""

    connections: Figure | None = None
    in_: Figure | None = field(default=None, name="in")
    out: Figure | None = None
    bytes_in: Figure | None = None
    refused: Figure | None = None


class ConfirmTimes(Part, frozen=True):
    """Quantiles of the time to a confirm, in milliseconds."""

    p50: Figure | None = None
    p99: Figure | None = None


class LagShown(Part, frozen=True):
    namespace: str
    topic: str
    group: str
    messages: str
    """A text, for JavaScript."""
    seconds: Figure | None = None
    is_complete: bool = True

    @property
    def count(self) -> int:
        return int(self.messages) if self.messages.isdecimal() else 0


class FiguresOfCluster(Part, frozen=True):
    """Figures of the cluster, by the gateway that takes them."""

    confirm: ConfirmTimes = ConfirmTimes()
    lags: list[LagShown] = field(default_factory=list)


class OpenFiles(Part, frozen=True):
    used: int
    limit: int
    refused_from: int


class FiguresOfGateway(Part, frozen=True):
    """Figures of one gateway.  `cluster` is None where another one takes the cluster's figures."""

    doors: dict[str, DoorRates] = field(default_factory=dict)
    cpu: Figure | None = None
    cluster: FiguresOfCluster | None = None
    bridges: list[BridgeShown] = field(default_factory=list)
    failing: dict[str, str] = field(default_factory=dict)
    open_files: OpenFiles | None = None
    clock_error_seconds: Figure | None = None
    clock_problem: str | None = None


class HistoryOfGateway(Part, frozen=True):
    """Series of one gateway, up to its last whole step, in seconds since the epoch."""

    end: int = 0
    series: dict[str, list[Figure | None]] = field(default_factory=dict)


# -- what is shown -----------------------------------------------------------------------------------------------------


class DoorShown(DoorRates, frozen=True, kw_only=True):
    door: str


class GatewayNow(Part, frozen=True):
    """A gateway with its figures, which are null where it has not answered."""

    name: str
    version: str
    started_at: Time
    is_this: bool
    silent_seconds: float | None
    connections: Figure | None = None
    cpu: Figure | None = None
    open_files: OpenFiles | None = None
    clock_error_seconds: Figure | None = None
    clock_problem: str | None = None


class Failing(Part, frozen=True):
    """Background work that had an error of the program just now."""

    gateway: str
    work: str
    reason: str


class AlarmShown(Part, frozen=True):
    severity: Severity
    subject: str
    text: str
    since: Time
    link: str


class DiskShown(Part, frozen=True):
    free: Figure
    size: Figure
    is_complete: bool


class TierShown(Part, frozen=True):
    bytes: Figure
    lag_messages: Figure


class ClusterOverviewShown(Shown, frozen=True):
    """The cluster now; where a gateway has not answered, sums are lower bounds"""

    cluster: str
    gateway: str
    version: str
    time: Time
    answered: AnsweredShown
    doors: list[DoorShown]
    confirm: ConfirmTimes
    furthest: LagShown | None
    lags: list[LagShown] | None
    gauges: dict[str, Figure]
    gateways: list[GatewayNow]
    brokers: list[BrokerShown]
    controllers: list[ControllerShown]
    name_servers: list[NameServerShape]
    bridges: list[BridgeShown]
    failing: list[Failing]
    counts: dict[str, int]
    alarms: list[AlarmShown]
    disk: list[DiskShown]
    tier: TierShown | None


class HistoryEvent(Part, frozen=True):
    at: int
    text: str


class HistoryShown(Part, frozen=True):
    end: int
    step: int
    series: dict[str, list[Figure | None]]
    events: list[HistoryEvent]
    answered: AnsweredShown


# -- examples ----------------------------------------------------------------------------------------------------------

_LAG: Final = LagShown("default", "orders", "billing", "284190", 221.5)
_ANSWERED: Final = cast("AnsweredShown", EXAMPLES[AnsweredShown])
shown_as(
    ClusterOverviewShown(
        cluster="default",
        gateway="gw-1",
        version="1.0.0",
        time=_TIME,
        answered=_ANSWERED,
        doors=[DoorShown(61204.0, 5640.5, 9120.5, 98304.5, 0.5, door="mqtt")],
        confirm=ConfirmTimes(2.1, 7.4),
        furthest=_LAG,
        lags=[_LAG],
        gauges={"disk_state": 0.0},
        gateways=[
            GatewayNow(
                name="gw-1",
                version="1.0.0",
                started_at=_TIME,
                is_this=True,
                silent_seconds=28.5,
                connections=20871.0,
                cpu=0.41,
                open_files=OpenFiles(20980, 65536, 65024),
                clock_error_seconds=0.0,
                clock_problem="",
            )
        ],
        brokers=[cast("BrokerShown", EXAMPLES[BrokerShown])],
        controllers=[cast("ControllerShown", EXAMPLES[ControllerShown])],
        name_servers=[NameServerShape("192.0.2.10:9000", True)],
        bridges=[cast("BridgeShown", EXAMPLES[BridgeShown])],
        failing=[Failing("gw-1", "expiry of queues", "KeyError: 'q'")],
        counts={"topics": 12},
        alarms=[
            AlarmShown(
                Severity.CRITICAL,
                "Group billing falls behind on orders",
                "284,190 messages, the oldest 4 min old",
                _TIME,
                "#/groups/billing",
            )
        ],
        disk=[DiskShown(412e9, 500e9, True)],
        tier=TierShown(8.5e12, 0.0),
    )
)
shown_as(
    HistoryShown(1790000000, 10, {"in.mqtt": [5640.5]}, [HistoryEvent(1789999000, "broker-1: epoch 42")], _ANSWERED)
)
