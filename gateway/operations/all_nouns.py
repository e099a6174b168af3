"""All nouns, in the order of the documentation."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.operations.journey.noun import JOURNEYS
from entrepot.gateway.operations.nouns.access_tester import ACCESS_TESTER
from entrepot.gateway.operations.nouns.acls import ACLS
from entrepot.gateway.operations.nouns.amqp import AMQP_CLIENTS
from entrepot.gateway.operations.nouns.asyncapi import ASYNC_API
from entrepot.gateway.operations.nouns.audit import AUDIT
from entrepot.gateway.operations.nouns.bridges import BRIDGES
from entrepot.gateway.operations.nouns.brokers import BROKERS
from entrepot.gateway.operations.nouns.clients import CLIENTS
from entrepot.gateway.operations.nouns.connected_clients import CONNECTED_CLIENTS
from entrepot.gateway.operations.nouns.consenting import CONSENT
from entrepot.gateway.operations.nouns.controllers import CONTROLLERS
from entrepot.gateway.operations.nouns.dead_letters import DEAD_LETTERS
from entrepot.gateway.operations.nouns.event_rules import EVENT_RULES
from entrepot.gateway.operations.nouns.event_streams import EVENT_STREAMS
from entrepot.gateway.operations.nouns.gateways import GATEWAYS
from entrepot.gateway.operations.nouns.group_consumers import GROUP_CONSUMERS
from entrepot.gateway.operations.nouns.group_lag import GROUP_LAG
from entrepot.gateway.operations.nouns.groups import GROUPS
from entrepot.gateway.operations.nouns.health import HEALTH
from entrepot.gateway.operations.nouns.ingest_jobs import INGEST_JOBS
from entrepot.gateway.operations.nouns.members import MEMBERS
from entrepot.gateway.operations.nouns.messages import MESSAGES
from entrepot.gateway.operations.nouns.namespaces import NAMESPACES
from entrepot.gateway.operations.nouns.publishing import EVENTS
from entrepot.gateway.operations.nouns.pull_delivery import PULL_DELIVERY
from entrepot.gateway.operations.nouns.pulling import PULLING
from entrepot.gateway.operations.nouns.retained import RETAINED
from entrepot.gateway.operations.nouns.rocketmq import ROCKETMQ_CLIENTS
from entrepot.gateway.operations.nouns.rocketmq_bridges import ROCKETMQ_BRIDGES
from entrepot.gateway.operations.nouns.session import SESSION
from entrepot.gateway.operations.nouns.sessions import SESSIONS
from entrepot.gateway.operations.nouns.settings import SETTINGS
from entrepot.gateway.operations.nouns.subscribing import SUBSCRIPTIONS
from entrepot.gateway.operations.nouns.tiering import TIERING
from entrepot.gateway.operations.nouns.timers import TIMERS
from entrepot.gateway.operations.nouns.topics import TOPICS
from entrepot.gateway.operations.nouns.traces import PACKET_TRACES
from entrepot.gateway.operations.nouns.transactions import TRANSACTIONS
from entrepot.gateway.operations.nouns.users import USERS
from entrepot.gateway.operations.nouns.viewing import VIEWING
from entrepot.gateway.operations.nouns.watching import WATCHING
from entrepot.gateway.operations.nouns.webhooks import WEBHOOKS
from entrepot.gateway.operations.overview.noun import OVERVIEW
from entrepot.gateway.operations.rabbitmq.bindings import BINDINGS
from entrepot.gateway.operations.rabbitmq.connections import CONNECTIONS
from entrepot.gateway.operations.rabbitmq.definitions import DEFINITIONS
from entrepot.gateway.operations.rabbitmq.exchanges import EXCHANGES
from entrepot.gateway.operations.rabbitmq.health_checks import HEALTH_CHECKS
from entrepot.gateway.operations.rabbitmq.limits import LIMITS
from entrepot.gateway.operations.rabbitmq.overview import RABBITMQ_SERVER
from entrepot.gateway.operations.rabbitmq.parameters import PARAMETERS
from entrepot.gateway.operations.rabbitmq.permissions import PERMISSIONS
from entrepot.gateway.operations.rabbitmq.policies import OPERATOR_POLICIES, POLICIES
from entrepot.gateway.operations.rabbitmq.publishing import EXCHANGE_PUBLISHING
from entrepot.gateway.operations.rabbitmq.queue_messages import QUEUE_MESSAGES
from entrepot.gateway.operations.rabbitmq.queues import QUEUES
from entrepot.gateway.operations.rabbitmq.topic_permissions import TOPIC_PERMISSIONS
from entrepot.gateway.operations.rabbitmq.users import RABBITMQ_USERS
from entrepot.gateway.operations.rabbitmq.vhosts import VHOSTS
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.table import Table
from entrepot.gateway.operations.trying.noun import TRYING

NOUNS: Final[tuple[Noun, ...]] = (
    EVENTS,
    PULL_DELIVERY,
    TOPICS,
    EVENT_RULES,
    TIERING,
    GROUPS,
    GROUP_LAG,
    GROUP_CONSUMERS,
    DEAD_LETTERS,
    MEMBERS,
    MESSAGES,
    PULLING,
    VIEWING,
    JOURNEYS,
    TRYING,
    SUBSCRIPTIONS,
    CONSENT,
    WEBHOOKS,
    WATCHING,
    EVENT_STREAMS,
    TIMERS,
    TRANSACTIONS,
    RETAINED,
    CONNECTED_CLIENTS,
    CLIENTS,
    SESSIONS,
    PACKET_TRACES,
    AMQP_CLIENTS,
    ROCKETMQ_CLIENTS,
    NAMESPACES,
    GATEWAYS,
    BROKERS,
    BRIDGES,
    ROCKETMQ_BRIDGES,
    CONTROLLERS,
    USERS,
    AUDIT,
    ACLS,
    ACCESS_TESTER,
    SETTINGS,
    INGEST_JOBS,
    HEALTH,
    RABBITMQ_SERVER,
    HEALTH_CHECKS,
    VHOSTS,
    CONNECTIONS,
    EXCHANGES,
    EXCHANGE_PUBLISHING,
    QUEUES,
    QUEUE_MESSAGES,
    BINDINGS,
    RABBITMQ_USERS,
    PERMISSIONS,
    POLICIES,
    OPERATOR_POLICIES,
    LIMITS,
    TOPIC_PERMISSIONS,
    PARAMETERS,
    DEFINITIONS,
    SESSION,
    OVERVIEW,
    ASYNC_API,
)
TABLE: Final = Table(operation for noun in NOUNS for operation in noun.operations)
