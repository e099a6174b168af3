"""Values of the recorded calls (`recorded_calls.json`), as a broker has them."""

from __future__ import annotations

from typing import Final

from entrepot.broker.store.record import RecordKind, encode_message
from entrepot.domain.definitions.consumer_group import ConsumerGroup, GroupStatus, QueueProgress
from entrepot.domain.delivery import Deliveries, DeliveryPlaces
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.measurement import Histogram
from entrepot.domain.message import StoredMessage
from entrepot.domain.pin import Pin
from entrepot.domain.ports import PopRequest
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.query import ConsumptionState, HopKind, MessageConsumer, MessageHop, MessageQuery, RecordOrigin
from entrepot.domain.tiering import AttachRequest, RestoreRequest, TableSeen, TableTopic, TierAddress, TierStatus
from entrepot.domain.timing import TimerCursor
from entrepot.domain.topic import QueueBounds, Topic, TopicStatus
from entrepot.domain.transaction import TransactionEnd
from entrepot.protocols.wire.record_run import RecordRun

MESSAGE: Final = StoredMessage(
    "t",
    b"body",
    "t/a",
    1,
    1,
    keys=("k",),
    message_id=b"id",
    born_time_ms=500,
    properties=(("p", "v"),),
    queue_offset=5,
    commit_log_offset=77,
    store_time_ms=501,
)
FILTER: Final = FilterExpression(FilterKind.SQL92, "a = 1")
POSITION: Final = Position(PositionKind.TIME, 500)
BOUNDS: Final = QueueBounds(1, 0, 9)
POP: Final = PopRequest("t", "g", 10, 5, attempt_id="x", consumer="c")
RECORD: Final = b"".join(encode_message(MESSAGE, RecordKind.MESSAGE, 77, 0, 501, 5))
DELIVERIES: Final = Deliveries([(RecordRun(1, b"epoch", 3, 5, 9, 1, "head"), (RECORD,))])
HANDLE: Final = "handle"
PLACES: Final = DeliveryPlaces(1, b"epoch", 3, 9, [5])
REFUSAL: Final = EntrepotError(Code.INVALID_RECEIPT_HANDLE, "it is void")
GROUP: Final = ConsumerGroup("g", revision=3)
GROUP_STATUS: Final = GroupStatus(GROUP, [QueueProgress("t", 1, 5, 9, 1, 4)])
TOPIC: Final = Topic("t", 2, revision=3)
TOPIC_STATUS: Final = TopicStatus(TOPIC, [BOUNDS])
KEY_VALUE: Final = KeyValue("k", b"v", 12)
CHANGE: Final = KeyValueChange("k", b"v", 12)
QUERY: Final = MessageQuery("t", key="k")
CONSUMER: Final = MessageConsumer("g", ConsumptionState.IN_FLIGHT, 2)
HOP: Final = MessageHop(HopKind.STORED, 500, "t", 1, 5)
ORIGIN: Final = RecordOrigin(3, 2)
CURSOR: Final = TimerCursor(500, 77)
END: Final = TransactionEnd("t", "transaction", True)
HISTOGRAM: Final = Histogram()
TIER: Final = TierStatus("t", "tables/t", ((1, 5),), 4, 2, 900, "", TierAddress("file:///cold"))
PIN: Final = Pin("t", 1, 900, "why")
RESTORE: Final = RestoreRequest("t", "tables/t")
ATTACH: Final = AttachRequest("file:///cold", "tables/t", "t")
SEEN: Final = TableSeen("tables/t", "t")
TABLE_TOPIC: Final = TableTopic(TOPIC, "tables/t", [BOUNDS])
