"""Operations on single messages."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.http.documents.operation import Operation, Operations, answers
from entrepot.gateway.http.documents.shapes import Choice, Maybe
from entrepot.gateway.operations.operation import PREFIX

ID: Final = "019AF2C4A48D1549BA4F1FC100000000"
_PLACE: Final = {"topic": "factory", "namespace": "default", "queueId": 2, "offset": "41"}
VIEWER_OPERATIONS: Final[Operations] = {
    ("POST", f"{PREFIX}/messages:try"): Operation(
        "tryMessage",
        answers(
            {"door": Choice(("http", "mqtt", "amqp", "rocketmq")), "id": Maybe(ID), "routed": True, "places": [_PLACE]},
            "Durable: where it lies",
        ),
        example={"door": "mqtt", "name": "factory/line1/temp", "payload": "21.5", "qos": 1},
        description="Conversion, checks and rights are those of the protocol's clients.",
    ),
}
