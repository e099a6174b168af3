"""All nouns, in the order of the documentation."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.operations.access_tester import ACCESS_TESTER
from entrepot.gateway.operations.acls import ACLS
from entrepot.gateway.operations.amqp import AMQP_CLIENTS
from entrepot.gateway.operations.asyncapi import ASYNC_API
from entrepot.gateway.operations.audit import AUDIT
from entrepot.gateway.operations.bridges import BRIDGES
from entrepot.gateway.operations.brokers import BROKERS
from entrepot.gateway.operations.clients import CLIENTS
from entrepot.gateway.operations.consenting import CONSENT
from entrepot.gateway.operations.controllers import CONTROLLERS
from entrepot.gateway.operations.dead_letters import DEAD_LETTERS
from entrepot.gateway.operations.event_rules import EVENT_RULES
from entrepot.gateway.operations.event_streams import EVENT_STREAMS
from entrepot.gateway.operations.gateways import GATEWAYS
from entrepot.gateway.operations.group_consumers import GROUP_CONSUMERS
from entrepot.gateway.operations.group_lag import GROUP_LAG
from entrepot.gateway.operations.groups import GROUPS
from entrepot.gateway.operations.health import HEALTH
from entrepot.gateway.operations.ingest_jobs import INGEST_JOBS
from entrepot.gateway.operations.journeys import JOURNEYS
from entrepot.gateway.operations.members import MEMBERS
from entrepot.gateway.operations.messages import MESSAGES
from entrepot.gateway.operations.namespaces import NAMESPACES
from entrepot.gateway.operations.operation import Noun
from entrepot.gateway.operations.overview.noun import OVERVIEW
from entrepot.gateway.operations.publishing import EVENTS
from entrepot.gateway.operations.pull_delivery import PULL_DELIVERY
from entrepot.gateway.operations.pulling import PULLING
from entrepot.gateway.operations.rabbitmq.bindings import BINDINGS
from entrepot.gateway.operations.rabbitmq.connections import CONNECTIONS
from entrepot.gateway.operations.rabbitmq.definitions import DEFINITIONS
from entrepot.gateway.operations.rabbitmq.exchanges import EXCHANGES
from entrepot.gateway.operations.rabbitmq.overview import RABBITMQ_SERVER
from entrepot.gateway.operations.rabbitmq.permissions import PERMISSIONS
from entrepot.gateway.operations.rabbitmq.policies import OPERATOR_POLICIES, PARAMETERS, POLICIES
from entrepot.gateway.operations.rabbitmq.publishing import EXCHANGE_PUBLISHING
from entrepot.gateway.operations.rabbitmq.queue_messages import QUEUE_MESSAGES
from entrepot.gateway.operations.rabbitmq.queues import QUEUES
from entrepot.gateway.operations.rabbitmq.users import RABBITMQ_USERS
from entrepot.gateway.operations.rabbitmq.vhosts import VHOSTS
from entrepot.gateway.operations.retained import RETAINED
from entrepot.gateway.operations.rocketmq import ROCKETMQ_CLIENTS
from entrepot.gateway.operations.session import SESSION
from entrepot.gateway.operations.sessions import SESSIONS
from entrepot.gateway.operations.settings import SETTINGS
from entrepot.gateway.operations.subscribing import SUBSCRIPTIONS
from entrepot.gateway.operations.table import Table
from entrepot.gateway.operations.tiering import TIERING
from entrepot.gateway.operations.timers import TIMERS
from entrepot.gateway.operations.topics import TOPICS
from entrepot.gateway.operations.traces import PACKET_TRACES
from entrepot.gateway.operations.transactions import TRANSACTIONS
from entrepot.gateway.operations.trying import TRYING
from entrepot.gateway.operations.users import USERS
from entrepot.gateway.operations.viewing import VIEWING
from entrepot.gateway.operations.watching import WATCHING
from entrepot.gateway.operations.webhooks import WEBHOOKS

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
    CLIENTS,
    SESSIONS,
    PACKET_TRACES,
    AMQP_CLIENTS,
    ROCKETMQ_CLIENTS,
    NAMESPACES,
    GATEWAYS,
    BROKERS,
    BRIDGES,
    CONTROLLERS,
    USERS,
    AUDIT,
    ACLS,
    ACCESS_TESTER,
    SETTINGS,
    INGEST_JOBS,
    HEALTH,
    RABBITMQ_SERVER,
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
    PARAMETERS,
    DEFINITIONS,
    SESSION,
    OVERVIEW,
    ASYNC_API,
)
TABLE: Final = Table(operation for noun in NOUNS for operation in noun.operations)
