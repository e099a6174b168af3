"""Rows of RabbitMQ's API, as the document tells them.

A list contains only members with a value, and only the requested columns: none is required.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from entrepot.gateway.operations.nouns.amqp import ChannelFields, ConnectionShown, ConsumerFields
from entrepot.gateway.operations.rabbitmq.listing import PageOf, Row, Rows
from entrepot.gateway.operations.rabbitmq.stats_rows import CONSUMED, ConsumedStats
from entrepot.gateway.operations.row.shapes import EXAMPLES, Like, Shown, one_of, shown_as
from entrepot.gateway.operations.row.shapes import Row as ShownRow

NODE_NAME: Final = "entrepot@gateway-1"
HASHING: Final = "rabbit_password_hashing_sha256"


_RowT = TypeVar("_RowT", bound=ShownRow)


class RabbitMqRow(ShownRow, rename="lower", frozen=True):
    """A row in RabbitMQ's spelling."""


class ConsumerShown(ConsumerFields, ShownRow, frozen=True):
    """A consumer of a queue"""


class ChannelShown(ChannelFields, ShownRow, frozen=True):
    """A channel of a connection"""

    consumer_details: list[ConsumerShown]


class FeatureFlagShown(RabbitMqRow, frozen=True):
    """Something that RabbitMQ calls a feature flag, and that holds here"""

    name: str
    desc: str
    doc_url: str
    state: str
    stability: str
    provided_by: str


shown_as(FeatureFlagShown("quorum_queue", "Queues of type quorum", "", "enabled", "required", "entrepot"))


class NodeShown(RabbitMqRow, frozen=True):
    """A gateway"""

    name: str
    type: str
    running: bool
    mem_alarm: bool
    disk_free_alarm: bool
    partitions: list[Any]
    sockets_used: int


shown_as(NodeShown(NODE_NAME, "disc", True, False, False, [], 1))


class VhostShown(RabbitMqRow, frozen=True):
    """A virtual host: a namespace"""

    name: str
    description: str
    tags: list[str]
    tracing: bool
    cluster_state: Any
    default_queue_type: str
    metadata: Any


shown_as(VhostShown("/", "", [], False, {NODE_NAME: "running"}, "classic", {"description": "", "tags": []}))


class ExchangeShown(RabbitMqRow, frozen=True):
    """An exchange"""

    name: str
    vhost: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Any
    policy: str | None


shown_as(ExchangeShown("shop", "/", "topic", True, False, False, {}, "limits"))


class QueueShown(RabbitMqRow, frozen=True):
    """A queue, and what is in it"""

    name: str
    vhost: str
    type: Annotated[str, one_of(("classic", "quorum", "stream"))]
    durable: bool
    auto_delete: bool
    exclusive: bool
    arguments: Any
    policy: str | None
    operator_policy: str | None
    effective_policy_definition: Any
    node: str
    state: str
    messages: int
    messages_ready: int
    messages_unacknowledged: int
    consumers: int
    message_bytes: int | UnsetType = UNSET
    message_bytes_ready: int | UnsetType = UNSET
    message_bytes_unacknowledged: int | UnsetType = UNSET
    consumer_capacity: float | UnsetType = UNSET
    consumer_utilisation: float | UnsetType = UNSET
    single_active_consumer_tag: str | UnsetType | None = UNSET
    exclusive_consumer_tag: str | UnsetType | None = UNSET
    message_stats: ConsumedStats | UnsetType = UNSET
    consumer_details: list[ConsumerShown] | UnsetType = UNSET


shown_as(
    QueueShown(
        "jobs",
        "/",
        "classic",
        True,
        False,
        False,
        {"x-max-length": 1000},
        "limits",
        "limits",
        {"max-length": 1000},
        NODE_NAME,
        "running",
        4,
        3,
        1,
        1,
        message_bytes=400,
        message_bytes_ready=300,
        message_bytes_unacknowledged=100,
        consumer_capacity=0.9,
        consumer_utilisation=0.9,
        single_active_consumer_tag="ctag1",
        exclusive_consumer_tag="ctag1",
        message_stats=CONSUMED,
        consumer_details=[ConsumerShown(**msgspec.structs.asdict(EXAMPLES[ConsumerFields]))],
    )
)


class BindingShown(RabbitMqRow, frozen=True):
    """A binding"""

    source: str
    vhost: str
    destination: str
    destination_type: Annotated[str, one_of(("queue", "exchange"))]
    routing_key: str
    arguments: Any
    properties_key: str


shown_as(BindingShown("shop", "/", "jobs", "queue", "line1.*", {}, "line1.%2A"))


class QueueMessageShown(Shown, rename="lower", frozen=True):
    """A message that was taken out of a queue"""

    payload_bytes: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    properties: Any
    payload: str
    payload_encoding: Annotated[str, one_of(("string", "base64"))]


shown_as(QueueMessageShown(4, False, "shop", "line1.temp", 3, {"content_type": "text/plain"}, "21.5", "string"))


class RabbitMqUserShown(RabbitMqRow, frozen=True):
    """A user"""

    name: str
    tags: list[str]
    limits: Any


shown_as(RabbitMqUserShown("bob", ["administrator"], {}))


class UserDefinition(RabbitMqUserShown, frozen=True):
    """A user with the hash of its password"""

    password_hash: str
    hashing_algorithm: str


shown_as(UserDefinition("bob", ["management"], {}, "nt4D+YZPgExuWon05KjON1/eeqr58JWoY36XOXpPAeLd/081", HASHING))


class PermissionShown(RabbitMqRow, frozen=True):
    """A user's rights in a virtual host: regular expressions of names"""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


shown_as(PermissionShown("bob", "/", "^jobs", ".*", ".*"))


class TopicPermissionShown(RabbitMqRow, frozen=True):
    """A user's rights on routing keys at a topic exchange: regular expressions"""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


shown_as(TopicPermissionShown("bob", "/", "amq.topic", "^line1", ".*"))


class UserLimitShown(RabbitMqRow, frozen=True):
    """The limits of a user"""

    user: str
    value: dict[str, int]


class VhostLimitShown(RabbitMqRow, frozen=True):
    """The limits of a virtual host"""

    vhost: str
    value: dict[str, int]


class GlobalParameterShown(RabbitMqRow, frozen=True):
    """A value that is kept for the clients of this API"""

    name: str
    value: Any


class ParameterShown(RabbitMqRow, frozen=True):
    """A runtime parameter of a component in a virtual host"""

    component: str
    name: str
    vhost: str
    value: Any


shown_as(UserLimitShown("bob", {"max-connections": 10}))
shown_as(VhostLimitShown("/", {"max-queues": 100}))
shown_as(GlobalParameterShown("region", "eu"))
shown_as(ParameterShown("vhost-limits", "limits", "/", {"max-queues": 100}))


class PolicyShown(RabbitMqRow, frozen=True):
    """A policy of queues and exchanges"""

    vhost: str
    name: str
    pattern: str
    definition: dict[str, Any]
    priority: int
    apply_to: str = msgspec.field(name="apply-to")


shown_as(PolicyShown("/", "limits", "^jobs", {"max-length": 1000}, 0, "queues"))


class DefinitionsShown(RabbitMqRow, frozen=True):
    """All that is defined; of one virtual host without users and permissions"""

    rabbit_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    users: list[UserDefinition]
    vhosts: list[VhostShown]
    permissions: list[PermissionShown]
    topic_permissions: list[TopicPermissionShown]
    parameters: list[Any]
    global_parameters: list[GlobalParameterShown]
    policies: list[PolicyShown]
    queues: list[QueueShown]
    exchanges: list[ExchangeShown]
    bindings: list[BindingShown]


def _example(kind: type[_RowT]) -> list[_RowT]:
    found = EXAMPLES[kind]
    assert isinstance(found, kind)
    return [found]


shown_as(
    DefinitionsShown(
        "3.13.0",
        "3.13.0",
        "Entrepôt",
        "1.0.0",
        _example(UserDefinition),
        _example(VhostShown),
        _example(PermissionShown),
        _example(TopicPermissionShown),
        [{"component": "operator_policy", "vhost": "/", "name": "limits", "value": {}}],
        _example(GlobalParameterShown),
        _example(PolicyShown),
        _example(QueueShown),
        _example(ExchangeShown),
        _example(BindingShown),
    )
)


VhostRow = Annotated[Row, Like(VhostShown)]
VhostRows = Annotated[Rows, Like(list[VhostShown] | PageOf[VhostShown])]
NodeRow = Annotated[Row, Like(NodeShown)]
NodeRows = Annotated[Rows, Like(list[NodeShown] | PageOf[NodeShown])]
FeatureFlagRows = Annotated[Rows, Like(list[FeatureFlagShown] | PageOf[FeatureFlagShown])]
ConnectionRow = Annotated[Row, Like(ConnectionShown)]
ConnectionRows = Annotated[Rows, Like(list[ConnectionShown] | PageOf[ConnectionShown])]
ChannelRow = Annotated[Row, Like(ChannelShown)]
ChannelRows = Annotated[Rows, Like(list[ChannelShown] | PageOf[ChannelShown])]
ConsumerRows = Annotated[Rows, Like(list[ConsumerShown] | PageOf[ConsumerShown])]
ExchangeRow = Annotated[Row, Like(ExchangeShown)]
ExchangeRows = Annotated[Rows, Like(list[ExchangeShown] | PageOf[ExchangeShown])]
QueueRow = Annotated[Row, Like(QueueShown)]
QueueRows = Annotated[Rows, Like(list[QueueShown] | PageOf[QueueShown])]
BindingRow = Annotated[Row, Like(BindingShown)]
BindingRows = Annotated[Rows, Like(list[BindingShown] | PageOf[BindingShown])]
QueueMessages = Annotated[list[Any], Like(list[QueueMessageShown])]
UserRow = Annotated[Row, Like(RabbitMqUserShown)]
UserRows = Annotated[Rows, Like(list[RabbitMqUserShown] | PageOf[RabbitMqUserShown])]
PermissionRow = Annotated[Row, Like(PermissionShown)]
PermissionRows = Annotated[Rows, Like(list[PermissionShown] | PageOf[PermissionShown])]
PolicyRow = Annotated[Row, Like(PolicyShown)]
PolicyRows = Annotated[Rows, Like(list[PolicyShown] | PageOf[PolicyShown])]
TopicPermissionRows = Annotated[Rows, Like(list[TopicPermissionShown] | PageOf[TopicPermissionShown])]
UserLimitRows = Annotated[Rows, Like(list[UserLimitShown] | PageOf[UserLimitShown])]
VhostLimitRows = Annotated[Rows, Like(list[VhostLimitShown] | PageOf[VhostLimitShown])]
ParameterRows = Annotated[Rows, Like(list[ParameterShown] | PageOf[ParameterShown])]
GlobalParameterRow = Annotated[Row, Like(GlobalParameterShown)]
GlobalParameterRows = Annotated[Rows, Like(list[GlobalParameterShown] | PageOf[GlobalParameterShown])]
Definitions = Annotated[Row, Like(DefinitionsShown)]
