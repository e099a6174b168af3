"""The object of each noun, made of the gateway's parts that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from entrepot.gateway.door.parts import Parts
from entrepot.gateway.http.metrics.metrics import Scrapes
from entrepot.gateway.http.metrics.rabbitmq_metrics import RabbitMqScrapes
from entrepot.gateway.http.parts.event_parts import EventParts
from entrepot.gateway.http.parts.shown_doors import ShownDoors
from entrepot.gateway.http.peer_listener import PeerListener
from entrepot.gateway.http.requests.access import HttpAccess
from entrepot.gateway.http.requests.login_cookie import cookie_headers, is_https, login_token
from entrepot.gateway.http.requests.request_times import RequestTimes
from entrepot.gateway.mqtt.listener import HTTP_PATH
from entrepot.gateway.operations.journey.noun import JOURNEYS, Journeys
from entrepot.gateway.operations.nouns.access_tester import ACCESS_TESTER, AccessTester
from entrepot.gateway.operations.nouns.acls import ACLS, Acls
from entrepot.gateway.operations.nouns.amqp import AMQP_CLIENTS, AmqpClients
from entrepot.gateway.operations.nouns.asyncapi import ASYNC_API, AsyncApi, Listeners
from entrepot.gateway.operations.nouns.audit import AUDIT, Audit
from entrepot.gateway.operations.nouns.bridges import BRIDGES, Bridges
from entrepot.gateway.operations.nouns.brokers import BROKERS, Brokers
from entrepot.gateway.operations.nouns.clients import CLIENTS, Clients
from entrepot.gateway.operations.nouns.connected_clients import CONNECTED_CLIENTS, ConnectedClients
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
from entrepot.gateway.operations.nouns.publishing import EVENTS, Publishing
from entrepot.gateway.operations.nouns.pull_delivery import PULL_DELIVERY, PullDelivery
from entrepot.gateway.operations.nouns.pulling import PULLING, Pulling
from entrepot.gateway.operations.nouns.retained import RETAINED, Retained
from entrepot.gateway.operations.nouns.rocketmq import ROCKETMQ_CLIENTS, RocketMqClients
from entrepot.gateway.operations.nouns.rocketmq_bridges import ROCKETMQ_BRIDGES, RocketMqBridges
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
from entrepot.gateway.operations.overview.noun import MAX_WATCHERS, OVERVIEW, Overviews
from entrepot.gateway.operations.overview.overview import Overview
from entrepot.gateway.operations.rabbitmq.bindings import BINDINGS, Bindings
from entrepot.gateway.operations.rabbitmq.connections import CONNECTIONS, Connections
from entrepot.gateway.operations.rabbitmq.definitions import DEFINITIONS, AllDefinitions
from entrepot.gateway.operations.rabbitmq.exchanges import EXCHANGES, Exchanges
from entrepot.gateway.operations.rabbitmq.health_checks import HEALTH_CHECKS, HealthChecks
from entrepot.gateway.operations.rabbitmq.limits import LIMITS, RabbitMqLimits
from entrepot.gateway.operations.rabbitmq.overview import RABBITMQ_SERVER, RabbitMqServer
from entrepot.gateway.operations.rabbitmq.parameters import PARAMETERS, Parameters
from entrepot.gateway.operations.rabbitmq.permissions import PERMISSIONS, Permissions
from entrepot.gateway.operations.rabbitmq.policies import OPERATOR_POLICIES, POLICIES, Policies
from entrepot.gateway.operations.rabbitmq.publishing import EXCHANGE_PUBLISHING, ExchangePublishing
from entrepot.gateway.operations.rabbitmq.queue_messages import QUEUE_MESSAGES, MessagesOfQueues
from entrepot.gateway.operations.rabbitmq.queues import QUEUES, Queues
from entrepot.gateway.operations.rabbitmq.server import RabbitMq
from entrepot.gateway.operations.rabbitmq.topic_permissions import TOPIC_PERMISSIONS, TopicPermissions
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


@dataclass(frozen=True, slots=True)
class NounObjects:
    """The parts that nouns are made of.  `beside`: this gateway among the others.  `times`: durations of requests.
    `on_drain`: ends endless answers."""

    parts: Parts
    events: EventParts
    beside: PeerListener
    doors: ShownDoors
    access: HttpAccess
    times: RequestTimes
    on_drain: list[Callable[[], None]] = field(default_factory=list)

    def all(self, overview: Overview, publishing: Publishing) -> dict[Noun, object]:
        """Return the nouns' objects of one gateway."""
        parts, peers, doors, security = self.parts, self.beside.peers, self.doors, self.parts.security
        store, settings, clock = parts.store, parts.settings, parts.clock
        contents = Contents(security, settings.http.masked_fields)
        browsers = Browsers(self.access.at_once, self.access.known, login_token, cookie_headers, is_https)
        subscriptions, memberships = self.events.subscriptions, parts.memberships
        return {
            TOPICS: Topics(store, security, settings.topics, memberships),
            GROUPS: Groups(store, security, settings.groups, memberships),
            GROUP_LAG: LagOfGroups(store, clock),
            GROUP_CONSUMERS: GroupConsumers(store, memberships, subscriptions, peers, doors.consumers_of),
            MEMBERS: Members(memberships, settings.http.max_wait_seconds),
            MESSAGES: Messages(store, contents),
            PULLING: Pulling(store, contents),
            VIEWING: Viewing(store, security, contents),
            DEAD_LETTERS: DeadLetters(store, contents),
            GATEWAYS: Gateways(peers),
            BROKERS: Brokers(store),
            BRIDGES: Bridges(peers, lambda: doors.bridges()),
            ROCKETMQ_BRIDGES: RocketMqBridges(peers, lambda: doors.rocketmq_bridges()),
            CONTROLLERS: Controllers(store),
            USERS: Users(security.administration),
            RETAINED: Retained(parts.retained, contents),
            AUDIT: Audit(security.audit, peers),
            ACCESS_TESTER: AccessTester(security),
            ACLS: Acls(security.administration),
            SETTINGS: GatewaySettings(setting_rows(settings, parts.origins), peers),
            NAMESPACES: Namespaces(store, doors.amqp),
            EVENT_RULES: TopicEventRules(store, self.events.rules, parts.topology, security),
            TIERING: Tiering(store, security),
            JOURNEYS: self._journeys(),
            TRYING: self._trying(publishing),
            TIMERS: Timers(store),
            TRANSACTIONS: Transactions(store, clock),
            INGEST_JOBS: IngestJobs(store.key_values, clock, partial(topic_statuses, store)),
            EVENTS: publishing,
            PULL_DELIVERY: PullDelivery(store, parts.topology, settings.groups, parts.sender, settings.http),
            SESSION: Session(security, self.beside.logins, clock, peers, browsers),
            ASYNC_API: AsyncApi(store, security, self.events.rules, self._listeners()),
            HEALTH: self._health(),
            **self._of_clients(),
            **self._of_subscriptions(),
            **self._of_streams(contents, overview),
            **self._of_rabbitmq(),
        }

    def _health(self) -> Health:
        parts, doors, peers = self.parts, self.doors, self.beside.peers
        texts = (RabbitMqScrapes(parts, doors, peers, by_object=each).text for each in (False, True))
        return Health(parts.store, parts.is_ready, Scrapes(parts, doors, self.times).text, *texts)

    def _of_clients(self) -> dict[Noun, object]:
        peers, doors = self.beside.peers, self.doors
        return {
            CONNECTED_CLIENTS: ConnectedClients(peers, self.parts.doors),
            CLIENTS: Clients(peers, doors.mqtt),
            SESSIONS: Sessions(doors.mqtt),
            PACKET_TRACES: PacketTraces(peers, doors.mqtt),
            AMQP_CLIENTS: AmqpClients(peers, doors.amqp),
            ROCKETMQ_CLIENTS: RocketMqClients(peers, doors.rocketmq),
        }

    def _of_rabbitmq(self) -> dict[Noun, object]:
        parts, peers = self.parts, self.beside.peers
        store, settings, rabbitmq = parts.store, parts.settings, RabbitMq(self.doors.amqp, parts.security)
        return {
            RABBITMQ_SERVER: RabbitMqServer(rabbitmq, store, peers, settings, parts.addresses, parts.is_ready),
            HEALTH_CHECKS: HealthChecks(
                rabbitmq, store, settings, peers.name, parts.addresses, parts.is_ready, parts.clock.now_ms
            ),
            VHOSTS: Vhosts(rabbitmq, store.topology),
            CONNECTIONS: Connections(rabbitmq, peers),
            EXCHANGES: Exchanges(rabbitmq),
            EXCHANGE_PUBLISHING: ExchangePublishing(rabbitmq),
            QUEUES: Queues(rabbitmq, peers),
            QUEUE_MESSAGES: MessagesOfQueues(rabbitmq, parts.sender.incidents),
            BINDINGS: Bindings(rabbitmq),
            RABBITMQ_USERS: RabbitMqUsers(rabbitmq),
            PERMISSIONS: Permissions(rabbitmq),
            POLICIES: Policies(rabbitmq, is_operators=False),
            OPERATOR_POLICIES: Policies(rabbitmq, is_operators=True),
            LIMITS: RabbitMqLimits(rabbitmq),
            TOPIC_PERMISSIONS: TopicPermissions(rabbitmq),
            PARAMETERS: Parameters(rabbitmq),
            DEFINITIONS: AllDefinitions(rabbitmq, store.topology, settings.amqp.product_version),
        }

    def _of_subscriptions(self) -> dict[Noun, object]:
        parts, webhooks, settings = self.parts, self.events.webhooks, self.parts.settings.webhooks
        store, clock, known = parts.store, parts.clock, KnownSubscriptions(self.events.subscriptions, parts.security)
        return {
            SUBSCRIPTIONS: Subscribing(known, webhooks, store, parts.topology, clock, settings.handshake),
            CONSENT: Consenting(webhooks.handshake),
            WEBHOOKS: WebhookDeliveries(known, webhooks, store, self.beside.peers, clock, settings.max_waiting_events),
        }

    def _journeys(self) -> Journeys:
        parts, doors, event_type = self.parts, self.doors, self.parts.settings.http.event_type
        subscriptions = self.events.subscriptions
        return Journeys(parts.store, parts.security, subscriptions, lambda: doors.bridges(), parts.clock, event_type)

    def _trying(self, publishing: Publishing) -> Trying:
        parts, doors = self.parts, self.doors
        http = HttpDoor(parts.store, parts.topology, publishing)
        mqtt, rocketmq = MqttDoor(doors.mqtt, parts.sender), RocketMqDoor(doors.rocketmq)
        return Trying(parts.store, http, mqtt, AmqpDoor(RabbitMq(doors.amqp, parts.security)), rocketmq)

    def _of_streams(self, contents: Contents, overview: Overview) -> dict[Noun, object]:
        """Return the nouns that have endless answers."""
        parts, settings = self.parts, self.parts.settings.http
        store, security = parts.store, parts.security
        watchers = Streams(MAX_WATCHERS)  # each asks again who it is, so a logout ends only its own
        self.on_drain.append(watchers.end)
        return {
            WATCHING: Watching(store, security, contents, self._streams(MAX_WATCHES), parts.is_ready),
            EVENT_STREAMS: EventStreams(
                store,
                parts.topology,
                security,
                self._streams(settings.max_streams),
                parts.sender.incidents,
                settings.event_type,
                parts.is_ready,
            ),
            OVERVIEW: Overviews(overview, watchers),
        }

    def _streams(self, most: int) -> Streams:
        """Return streams that end with the drain, and with a logout: their readers come again, and show who they
        are."""
        streams = Streams(most)
        self.on_drain.append(streams.end)
        self.beside.logins.on_end.append(streams.end)
        return streams

    def _listeners(self) -> Listeners:
        mqtt = self.parts.settings.mqtt
        is_here = mqtt.enabled and mqtt.ws_on_http and self.doors.mqtt is not None
        return Listeners(self.parts.addresses, mqtt.ws_path, HTTP_PATH if is_here else "")

    def publishing(self) -> Publishing:
        """Return the publishing of events, which publishes at once share."""
        parts, events = self.parts, self.events
        return Publishing(
            parts.store,
            parts.sender,
            parts.topology,
            parts.security,
            events.rules,
            events.deduplication,
            parts.clock,
            parts.settings,
        )

    def overview(self) -> Overview:
        """Return the overview of the cluster, as this gateway makes it."""
        parts, doors, settings = self.parts, self.doors, self.parts.settings
        return Overview(
            parts.store,
            self.beside.peers,
            parts.clock,
            doors.figures,
            lambda: doors.bridges(),
            lambda: parts.retained.count,
            settings.cluster.name or DEFAULT_CLUSTER,
        )
