"""AmqpAccess: what the AMQP door asks of the one decision point (`gateway.security`).

RabbitMQ's three permissions are said in the words of the one access list: *write* on an exchange is PUB on the Topic of
its name (of `amq.topic`: on the topic name that the routing key is; of the default exchange: on the queue's name);
*read* on a queue is SUB on the group of its name, on an exchange SUB on its Topic (of `amq.topic`: on the topic filter
that the pattern is); *configure* is CREATE and DELETE of
the Topic of that name, and *write* on what is bound UPDATE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from domain.access.model import NAMESPACE_LEVEL, Action, ResourceType
from domain.names import DEFAULT_NAMESPACE
from gateway.frontends.amqp.names import PROTOCOL
from gateway.security.security import Security
from gateway.vhosts.vhost import Queue, Vhost
from protocols.amqp.connection_events import Publish
from protocols.amqp.errors import AmqpError
from protocols.amqp.mapping import MQTT_EXCHANGE
from protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from gateway.frontends.amqp.conversation import AmqpConversation


class AmqpAccess:
    """Each raises ACCESS_REFUSED."""

    def __init__(self, security: Security) -> None:
        self._security = security

    def check_publish(self, conversation: AmqpConversation, vhost: Vhost, publish: Publish) -> None:
        if self._security.is_open:
            return
        name = publish.exchange or publish.routing_key
        if name == MQTT_EXCHANGE:
            name = publish.routing_key.replace(".", "/")
        if not self._may(conversation, vhost, Action.PUB, ResourceType.TOPIC, name):
            self._refuse(conversation, vhost, "write", "exchange", publish.exchange)

    def check_consume(self, conversation: AmqpConversation, vhost: Vhost, queue: Queue) -> None:
        self.check_read(conversation, vhost, queue.name)

    def check_read(self, conversation: AmqpConversation, vhost: Vhost, name: str) -> None:
        """To read a queue of that name, whether it is there or not."""
        if not self._security.is_open and not self._may(conversation, vhost, Action.SUB, ResourceType.GROUP, name):
            self._refuse(conversation, vhost, "read", "queue", name)

    def check(self, conversation: AmqpConversation, vhost: Vhost, action: Action, name: str) -> None:
        """To declare, delete or bind what has a name."""
        if not self._security.is_open and not self._may(conversation, vhost, action, ResourceType.TOPIC, name):
            words = {Action.SUB: "read", Action.UPDATE: "write", Action.PUB: "write"}
            self._refuse(conversation, vhost, words.get(action, "configure"), "resource", name)

    def _may(self, conversation: AmqpConversation, vhost: Vhost, action: Action, kind: ResourceType, name: str) -> bool:
        principal = conversation.principal
        if vhost.namespace != DEFAULT_NAMESPACE:
            name = f"{NAMESPACE_LEVEL}/{vhost.namespace}/{name}"
        return principal is not None and self._security.allows(principal, action, kind, name, PROTOCOL)

    @staticmethod
    def _refuse(conversation: AmqpConversation, vhost: Vhost, what: str, kind: str, name: str) -> None:
        text = f"{what} access to {kind} '{name}' in vhost '{vhost.name}' refused for user '{conversation.login_name}'"
        raise AmqpError(ReplyCode.ACCESS_REFUSED, text)
