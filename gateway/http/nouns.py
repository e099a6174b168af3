"""The object of each noun, made of the gateway's parts that it needs."""

from __future__ import annotations

from functools import partial

from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.login_cookie import cookie_headers, is_https, login_token
from entrepot.gateway.http.metrics import Scrapes
from entrepot.gateway.http.request_times import PUBLISH
from entrepot.gateway.http.rights import DEFAULT_CLUSTER
from entrepot.gateway.mqtt.listener import HTTP_PATH
from entrepot.gateway.operations.access_tester import ACCESS_TESTER, AccessTester
from entrepot.gateway.operations.acls import ACLS, Acls
from entrepot.gateway.operations.amqp import AMQP_CLIENTS, AmqpClients
from entrepot.gateway.operations.asyncapi import ASYNC_API, AsyncApi, Listeners
from entrepot.gateway.operations.audit import AUDIT, Audit
from entrepot.gateway.operations.bridges import BRIDGES, Bridges
from entrepot.gateway.operations.brokers import BROKERS, Brokers
from entrepot.gateway.operations.clients import CLIENTS, Clients
from entrepot.gateway.operations.controllers import CONTROLLERS, Controllers
from entrepot.gateway.operations.dead_letters import DEAD_LETTERS, DeadLetters
from entrepot.gateway.operations.event_rules import EVENT_RULES, TopicEventRules
from entrepot.gateway.operations.event_streams import EVENT_STREAMS, EventStreams
from entrepot.gateway.operations.gateways import GATEWAYS, Gateways
from entrepot.gateway.operations.group_consumers import GROUP_CONSUMERS, GroupConsumers
from entrepot.gateway.operations.group_lag import GROUP_LAG, LagOfGroups
from entrepot.gateway.operations.groups import GROUPS, Groups
from entrepot.gateway.operations.health import HEALTH, Health
from entrepot.gateway.operations.ingest_jobs import INGEST_JOBS, IngestJobs
from entrepot.gateway.operations.local_views.group_consumers import Doors
from entrepot.gateway.operations.members import MEMBERS, Members
from entrepot.gateway.operations.messages import MESSAGES, Messages
from entrepot.gateway.operations.namespaces import NAMESPACES, Namespaces
from entrepot.gateway.operations.operation import Noun
from entrepot.gateway.operations.overview.figures import CountedDoors
from entrepot.gateway.operations.overview.noun import MAX_WATCHERS, OVERVIEW, Overviews
from entrepot.gateway.operations.overview.overview import Overview
from entrepot.gateway.operations.pulling import PULLING, Pulling
from entrepot.gateway.operations.retained import RETAINED, Retained
from entrepot.gateway.operations.rocketmq import ROCKETMQ_CLIENTS, RocketMqClients
from entrepot.gateway.operations.seen import Contents
from entrepot.gateway.operations.session import SESSION, Browsers, Session
from entrepot.gateway.operations.sessions import SESSIONS, Sessions
from entrepot.gateway.operations.settings import SETTINGS, GatewaySettings
from entrepot.gateway.operations.statuses import topic_statuses
from entrepot.gateway.operations.streams import Streams
from entrepot.gateway.operations.tiering import TIERING, Tiering
from entrepot.gateway.operations.timers import TIMERS, Timers
from entrepot.gateway.operations.topics import TOPICS, Topics
from entrepot.gateway.operations.traces import PACKET_TRACES, PacketTraces
from entrepot.gateway.operations.transactions import TRANSACTIONS, Transactions
from entrepot.gateway.operations.users import USERS, Users
from entrepot.gateway.operations.viewing import VIEWING, Viewing
from entrepot.gateway.operations.watching import MAX_WATCHES, WATCHING, Watching
from entrepot.gateway.settings import setting_rows


def objects_of(context: HttpContext, access: HttpAccess, overview: Overview) -> dict[Noun, object]:
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
        TIMERS: Timers(store),
        TRANSACTIONS: Transactions(store, context.clock),
        INGEST_JOBS: IngestJobs(store.key_values, context.clock, partial(topic_statuses, store)),
        SESSION: Session(context.security, context.logins, context.clock, context.peers, browsers),
        ASYNC_API: AsyncApi(store, context.security, context.event_rules, _listeners(context)),
        HEALTH: Health(store, context.is_ready, Scrapes(context).text),
        **_of_streams(context, contents, overview),
    }


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
