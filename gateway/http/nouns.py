"""The object of each noun, made of the gateway's parts that it needs."""

from __future__ import annotations

from functools import partial

from entrepot.gateway.http.metrics.metrics import Scrapes
from entrepot.gateway.http.requests.access import HttpAccess
from entrepot.gateway.http.requests.context import HttpContext
from entrepot.gateway.http.requests.login_cookie import cookie_headers, is_https, login_token
from entrepot.gateway.mqtt.listener import HTTP_PATH
from entrepot.gateway.operations.journey.noun import JOURNEYS, Journeys
from entrepot.gateway.operations.local_views.group_consumers import Doors
from entrepot.gateway.operations.nouns.access_tester import ACCESS_TESTER, AccessTester
from entrepot.gateway.operations.nouns.acls import ACLS, Acls
from entrepot.gateway.operations.nouns.amqp import AMQP_CLIENTS, AmqpClients
from entrepot.gateway.operations.nouns.asyncapi import ASYNC_API, AsyncApi, Listeners
from entrepot.gateway.operations.nouns.audit import AUDIT, Audit
from entrepot.gateway.operations.nouns.bridges import BRIDGES, Bridges
from entrepot.gateway.operations.nouns.brokers import BROKERS, Brokers
from entrepot.gateway.operations.nouns.clients import CLIENTS, Clients
from entrepot.gateway.operations.nouns.consenting import CONSENT, Consenting
from entrepot.gateway.operations.nouns.controllers import CONTROLLERS, Controllers
from entrepot.gateway.operations.nouns.dead_letters import DEAD_LETTERS, DeadLetters
from entrepot.gateway.operations.nouns.event_rules import EVENT_RULES, TopicEventRules
from entrepot.gateway.operations.nouns.event_streams import EVENT_STREAMS, EventStreams
from entrepot.gateway.operations.nouns.gateways import GATEWAYS, Gateways
from entrepot.gateway.operations.nouns.group_consumers import GROUP_CONSUMERS, GroupConsumers
from entrepot.gateway.operations.nouns.group_lag import GROUP_LAG, LagOfGroups
from entrepot.gateway.operations.nouns.groups import GROUPS, Groups
from entrepot.gateway.operations.nouns.health import HEALTH, Health
from entrepot.gateway.operations.nouns.ingest_jobs import INGEST_JOBS, IngestJobs
from entrepot.gateway.operations.nouns.known_subscriptions import KnownSubscriptions
from entrepot.gateway.operations.nouns.members import MEMBERS, Members
from entrepot.gateway.operations.nouns.messages import MESSAGES, Messages
from entrepot.gateway.operations.nouns.namespaces import NAMESPACES, Namespaces
from entrepot.gateway.operations.nouns.publishing import EVENTS, PUBLISH, Publishing
from entrepot.gateway.operations.nouns.pull_delivery import PULL_DELIVERY, PullDelivery
from entrepot.gateway.operations.nouns.pulling import PULLING, Pulling
from entrepot.gateway.operations.nouns.retained import RETAINED, Retained
from entrepot.gateway.operations.nouns.rocketmq import ROCKETMQ_CLIENTS, RocketMqClients
from entrepot.gateway.operations.nouns.session import SESSION, Browsers, Session
from entrepot.gateway.operations.nouns.sessions import SESSIONS, Sessions
from entrepot.gateway.operations.nouns.settings import SETTINGS, GatewaySettings
from entrepot.gateway.operations.nouns.subscribing import SUBSCRIPTIONS, Subscribing
from entrepot.gateway.operations.nouns.tiering import TIERING, Tiering
from entrepot.gateway.operations.nouns.timers import TIMERS, Timers
from entrepot.gateway.operations.nouns.topics import TOPICS, Topics
from entrepot.gateway.operations.nouns.traces import PACKET_TRACES, PacketTraces
from entrepot.gateway.operations.nouns.transactions import TRANSACTIONS, Transactions
from entrepot.gateway.operations.nouns.users import USERS, Users
from entrepot.gateway.operations.nouns.viewing import VIEWING, Viewing
from entrepot.gateway.operations.nouns.watching import MAX_WATCHES, WATCHING, Watching
from entrepot.gateway.operations.nouns.webhooks import WEBHOOKS, WebhookDeliveries
from entrepot.gateway.operations.overview.figures import CountedDoors
from entrepot.gateway.operations.overview.noun import MAX_WATCHERS, OVERVIEW, Overviews
from entrepot.gateway.operations.overview.overview import Overview
from entrepot.gateway.operations.rabbitmq.bindings import BINDINGS, Bindings
from entrepot.gateway.operations.rabbitmq.connections import CONNECTIONS, Connections
from entrepot.gateway.operations.rabbitmq.definitions import DEFINITIONS, AllDefinitions
from entrepot.gateway.operations.rabbitmq.exchanges import EXCHANGES, Exchanges
from entrepot.gateway.operations.rabbitmq.overview import RABBITMQ_SERVER, RabbitMqServer
from entrepot.gateway.operations.rabbitmq.permissions import PERMISSIONS, Permissions
from entrepot.gateway.operations.rabbitmq.policies import OPERATOR_POLICIES, PARAMETERS, POLICIES, Parameters, Policies
from entrepot.gateway.operations.rabbitmq.publishing import EXCHANGE_PUBLISHING, ExchangePublishing
from entrepot.gateway.operations.rabbitmq.queue_messages import QUEUE_MESSAGES, MessagesOfQueues
from entrepot.gateway.operations.rabbitmq.queues import QUEUES, Queues
from entrepot.gateway.operations.rabbitmq.server import RabbitMq
from entrepot.gateway.operations.rabbitmq.users import RABBITMQ_USERS, RabbitMqUsers
from entrepot.gateway.operations.rabbitmq.vhosts import VHOSTS, Vhosts
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import DEFAULT_CLUSTER
from entrepot.gateway.operations.row.seen import Contents
from entrepot.gateway.operations.row.statuses import topic_statuses
from entrepot.gateway.operations.row.streams import Streams
from entrepot.gateway.operations.trying.noun import TRYING, Trying
from entrepot.gateway.operations.trying.trial_doors import AmqpDoor, HttpDoor, MqttDoor, RocketMqDoor
from entrepot.gateway.settings import setting_rows


def objects_of(
    context: HttpContext, access: HttpAccess, overview: Overview, publishing: Publishing
) -> dict[Noun, object]:
    """Return the nouns' objects of one gateway."""
    store, contents = context.store, Contents(context.security, context.settings.http.masked_fields)
    browsers = Browsers(access.at_once, access.known, login_token, cookie_headers, is_https)
    doors = Doors(context.amqp, context.mqtt, context.rocketmq, context.group_consumers)
    return {
        TOPICS: Topics(store, context.security, context.settings.topics, context.memberships),
        GROUPS: Groups(store, context.security, context.settings.groups, context.memberships),
        GROUP_LAG: LagOfGroups(store, context.clock),
        GROUP_CONSUMERS: GroupConsumers(store, context.memberships, context.subscriptions, context.peers, doors),
        MEMBERS: Members(context.memberships, context.settings.http.max_wait_seconds),
        MESSAGES: Messages(store, contents),
        PULLING: Pulling(store, contents),
        VIEWING: Viewing(store, context.security, contents),
        DEAD_LETTERS: DeadLetters(store, contents),
        GATEWAYS: Gateways(context.peers),
        BROKERS: Brokers(store),
        BRIDGES: Bridges(context.peers, lambda: context.bridges()),
        CONTROLLERS: Controllers(store),
        USERS: Users(context.security.administration),
        RETAINED: Retained(context.retained, contents),
        CLIENTS: Clients(context.peers, context.mqtt),
        SESSIONS: Sessions(context.mqtt),
        PACKET_TRACES: PacketTraces(context.peers, context.mqtt),
        AMQP_CLIENTS: AmqpClients(context.peers, context.amqp),
        ROCKETMQ_CLIENTS: RocketMqClients(context.peers, context.rocketmq),
        AUDIT: Audit(context.security.audit, context.peers),
        ACCESS_TESTER: AccessTester(context.security),
        ACLS: Acls(context.security.administration),
        SETTINGS: GatewaySettings(setting_rows(context.settings, context.origins), context.peers),
        NAMESPACES: Namespaces(store, context.amqp),
        EVENT_RULES: TopicEventRules(store, context.event_rules, context.topology, context.security),
        TIERING: Tiering(store),
        JOURNEYS: _journeys(context),
        TRYING: _trying(context, publishing),
        TIMERS: Timers(store),
        **_of_subscriptions(context),
        TRANSACTIONS: Transactions(store, context.clock),
        INGEST_JOBS: IngestJobs(store.key_values, context.clock, partial(topic_statuses, store)),
        EVENTS: publishing,
        PULL_DELIVERY: _pull_delivery(context),
        **_rabbitmq_objects(context),
        SESSION: Session(context.security, context.logins, context.clock, context.peers, browsers),
        ASYNC_API: AsyncApi(store, context.security, context.event_rules, _listeners(context)),
        HEALTH: Health(store, context.is_ready, Scrapes(context).text),
        **_of_streams(context, contents, overview),
    }


def _pull_delivery(context: HttpContext) -> PullDelivery:
    settings = context.settings
    return PullDelivery(context.store, context.topology, settings.groups, context.sender, settings.http)


def _rabbitmq_objects(context: HttpContext) -> dict[Noun, object]:
    store, peers = context.store, context.peers
    rabbitmq = RabbitMq(context.amqp, context.security)
    return {
        RABBITMQ_SERVER: RabbitMqServer(rabbitmq, store, peers, context.settings, context.addresses, context.is_ready),
        VHOSTS: Vhosts(rabbitmq, store.topology),
        CONNECTIONS: Connections(rabbitmq, peers),
        EXCHANGES: Exchanges(rabbitmq),
        EXCHANGE_PUBLISHING: ExchangePublishing(rabbitmq),
        QUEUES: Queues(rabbitmq, peers),
        QUEUE_MESSAGES: MessagesOfQueues(rabbitmq, context.sender.incidents),
        BINDINGS: Bindings(rabbitmq),
        RABBITMQ_USERS: RabbitMqUsers(context.security.administration),
        PERMISSIONS: Permissions(rabbitmq),
        POLICIES: Policies(rabbitmq, is_operators=False),
        OPERATOR_POLICIES: Policies(rabbitmq, is_operators=True),
        PARAMETERS: Parameters(),
        DEFINITIONS: AllDefinitions(rabbitmq, store.topology, context.settings.amqp.product_version),
    }


def _of_subscriptions(context: HttpContext) -> dict[Noun, object]:
    store, clock, webhooks, settings = context.store, context.clock, context.webhooks, context.settings.webhooks
    known = KnownSubscriptions(context.subscriptions, context.security)
    return {
        SUBSCRIPTIONS: Subscribing(known, webhooks, store, context.topology, clock, settings.handshake),
        CONSENT: Consenting(webhooks.handshake),
        WEBHOOKS: WebhookDeliveries(known, webhooks, store, context.peers, clock, settings.max_waiting_events),
    }


def _journeys(context: HttpContext) -> Journeys:
    security, event_type = context.security, context.settings.http.event_type
    subscriptions, clock = context.subscriptions, context.clock
    return Journeys(context.store, security, subscriptions, lambda: context.bridges(), clock, event_type)


def _trying(context: HttpContext, publishing: Publishing) -> Trying:
    http = HttpDoor(context.store, context.topology, publishing)
    mqtt, rocketmq = MqttDoor(context.mqtt, context.sender), RocketMqDoor(context.rocketmq)
    amqp = AmqpDoor(RabbitMq(context.amqp, context.security))
    return Trying(context.store, http, mqtt, amqp, rocketmq)


def _of_streams(context: HttpContext, contents: Contents, overview: Overview) -> dict[Noun, object]:
    """The nouns that have endless answers."""
    store, security, settings = context.store, context.security, context.settings.http
    watchers = Streams(MAX_WATCHERS)  # each asks again who it is, so a logout ends only its own
    context.on_drain.append(watchers.end)
    return {
        WATCHING: Watching(store, security, contents, _streams(context, MAX_WATCHES), context.is_ready),
        EVENT_STREAMS: EventStreams(
            store,
            context.topology,
            security,
            _streams(context, settings.max_streams),
            context.sender.incidents,
            settings.event_type,
            context.is_ready,
        ),
        OVERVIEW: Overviews(overview, watchers),
    }


def publishing_of(context: HttpContext) -> Publishing:
    """Return the publishing of events, which publishes at once share."""
    return Publishing(
        context.store,
        context.sender,
        context.topology,
        context.security,
        context.event_rules,
        context.deduplication,
        context.clock,
        context.settings,
    )


def overview_of(context: HttpContext) -> Overview:
    """Return the overview of the cluster, as this gateway makes it."""
    settings, times = context.settings, context.times
    doors = CountedDoors(
        context.mqtt if settings.mqtt.enabled else None,
        context.amqp is not None,
        context.counters,
        context.connections,
        lambda: times.of("POST", PUBLISH).others.total(),
    )
    return Overview(
        context.store,
        context.peers,
        context.clock,
        doors,
        lambda: context.bridges(),
        lambda: context.retained.count,
        settings.cluster.name or DEFAULT_CLUSTER,
    )


def _streams(context: HttpContext, most: int) -> Streams:
    """Streams that end with the drain, and with a logout: their readers come again, and show who they are."""
    streams = Streams(most)
    context.on_drain.append(streams.end)
    context.logins.on_end.append(streams.end)
    return streams


def _listeners(context: HttpContext) -> Listeners:
    mqtt = context.settings.mqtt
    is_here = mqtt.enabled and mqtt.ws_on_http and context.mqtt is not None
    return Listeners(context.addresses, mqtt.ws_path, HTTP_PATH if is_here else "")
