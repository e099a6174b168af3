"""Codes of requests and answers (RequestCode, ResponseCode), and what an answer's code means here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.rocketmq.remoting.frames import Frame

PULL = 11
QUERY = 12
QUERY_OFFSET = 14
COMMIT_OFFSET = 15
PUT_TOPIC = 17
ALL_TOPIC_CONFIG = 21
BROKER_CONFIG = 26
OFFSET_AT_TIME = 29
MAX_OFFSET = 30
MIN_OFFSET = 31
VIEW = 33
HEARTBEAT = 34
SEND_BACK = 36
END_TRANSACTION = 37
CHECK_TRANSACTION = 39
ROUTE = 105
CLUSTER_INFO = 106
PUT_GROUP = 200
ALL_GROUPS = 201
DELETE_GROUP = 207
CONSUME_STATS = 208
DELETE_TOPIC = 215
FORGET_TOPIC = 216
RESET_OFFSET = 222
GROUPS_OF_TOPIC = 300
SEND = 310
SEND_BATCH = 320
RECALL = 370
LIST_USERS = 3005
LIST_ACLS = 3010
POP = 200050
ACK = 200051
CHANGE_INVISIBLE = 200053
BATCH_ACK = 200151

SYSTEM_ERROR = 1
SYSTEM_BUSY = 2
NOT_SUPPORTED = 3
FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT = 10, 11, 12
STORED_LESS_SAFELY: Final = frozenset({FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT})
"""Stored, and not yet as safe as the broker's roles promise."""
ILLEGAL_MESSAGE = 13
NOT_AVAILABLE = 14
NO_PERMISSION = 16
TOPIC_NOT_EXIST = 17
PULL_NOT_FOUND, PULL_RETRY, PULL_MOVED = 19, 20, 21
NOT_FOUND = 22
BAD_EXPRESSION = 23
GROUP_NOT_EXIST = 26
INVALID_PARAMETER = 29
NO_MESSAGE = 208
POLLING_FULL, POLLING_TIMEOUT = 209, 210
FLOW_CONTROL = 215
ILLEGAL_OPERATION = 604
GO_AWAY = 1500

_MEANINGS: Final[Mapping[int, Code]] = {
    SYSTEM_BUSY: Code.TOO_MANY_REQUESTS,
    NOT_SUPPORTED: Code.UNSUPPORTED,
    ILLEGAL_MESSAGE: Code.BAD_REQUEST,
    NOT_AVAILABLE: Code.STORAGE_FULL,
    NO_PERMISSION: Code.FORBIDDEN,
    TOPIC_NOT_EXIST: Code.TOPIC_NOT_FOUND,
    NOT_FOUND: Code.OFFSET_NOT_FOUND,
    BAD_EXPRESSION: Code.ILLEGAL_FILTER_EXPRESSION,
    GROUP_NOT_EXIST: Code.CONSUMER_GROUP_NOT_FOUND,
    INVALID_PARAMETER: Code.BAD_REQUEST,
    NO_MESSAGE: Code.INVALID_RECEIPT_HANDLE,
    FLOW_CONTROL: Code.TOO_MANY_REQUESTS,
    GO_AWAY: Code.UNAVAILABLE,
    PULL_MOVED: Code.ILLEGAL_OFFSET,
    ILLEGAL_OPERATION: Code.OFFSET_NOT_FOUND,
}
_BUSY_MARKS: Final = (
    "[TIMEOUT_CLEAN_QUEUE]",
    "[PCBUSY_CLEAN_QUEUE]",
    "[REJECTREQUEST]",
    "[OVERLOAD]",
    "[PC_SYNCHRONIZED]",
    "timer message is under flow control",
)
"""A broker that has too much to do says so in the remark, under SYSTEM_BUSY and SYSTEM_ERROR alike."""
_AWAY_MARKS: Final = ("in-sync replicas not enough", "create mapped file failed", "broker unable to service")
"""Words of a broker that can store nothing now, under SYSTEM_ERROR.  Nothing is stored."""
_DISK_RATIOS: Final = re.compile(r"disk is full \[CL: *(-?[0-9.]+) CQ: *(-?[0-9.]+) INDEX: *(-?[0-9.]+)\]")
"""A broker's words for how full its disks are, in a refusal that may also mean a slave, or one that is stopping."""
_FULL_FROM: Final = 0.85
"""A broker that refused above 0.9 takes messages again below this."""
_MAX_REMARK: Final = 300


def refusal_of(answer: Frame, what: str) -> EntrepotError:
    """Return the refusal that an answer is, with the action that it refuses in words."""
    code = _MEANINGS.get(answer.code, Code.INTERNAL_ERROR)
    if any(mark in answer.remark for mark in _BUSY_MARKS):
        code = Code.TOO_MANY_REQUESTS
    elif any(mark in answer.remark for mark in _AWAY_MARKS):
        code = Code.UNAVAILABLE
    elif code is Code.STORAGE_FULL and (ratios := _DISK_RATIOS.search(answer.remark)) is not None:
        code = code if max(map(float, ratios.groups())) >= _FULL_FROM else Code.UNAVAILABLE
    text = answer.remark.partition("\n")[0][:_MAX_REMARK] or f"code {answer.code}"
    return EntrepotError(code, f"RocketMQ refuses to {what}: {text}")
