"""Sight: the rights of one principal to see topics, groups and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.domain.access.model import Action, ResourceType, access_name, whole_topic
from entrepot.domain.names import dead_letter_group, is_retry_topic, retry_group
from entrepot.gateway.operations.row.rights import PROTOCOL

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.journey.model import JourneyHop
    from entrepot.gateway.security.security import Security


class Sight:
    """One principal's view.  `cluster`: name of the Cluster resource."""

    def __init__(self, security: Security, principal: Principal, cluster: str) -> None:
        self._security, self._principal, self._cluster = security, principal, cluster

    def _may(self, action: Action, kind: ResourceType, name: str) -> bool:
        return self._security.allows(self._principal, action, kind, name, PROTOCOL)

    def reads(self, topic: str) -> bool:
        """True if it may read all messages of a topic."""
        return self._may(Action.SUB, ResourceType.TOPIC, whole_topic(topic))

    def reads_of(self, topic: str) -> bool:
        """True if it may read the messages of a topic; those of dead letters or retries go by SUB on the group."""
        owner = retry_group(topic) if is_retry_topic(topic) else dead_letter_group(topic)
        if owner is not None:
            return self._may(Action.SUB, ResourceType.GROUP, access_name(owner))
        return self.reads(topic)

    @property
    def sees_cluster(self) -> bool:
        """True if it may list brokers."""
        return self._may(Action.LIST, ResourceType.CLUSTER, self._cluster)

    def knows_group(self, group: str) -> bool:
        """True if it may know of a group."""
        name = access_name(group)
        return self._may(Action.GET, ResourceType.GROUP, name) or self._may(Action.SUB, ResourceType.GROUP, name)

    def knows_topic(self, topic: str) -> bool:
        """True if it may know of a topic; that of dead letters or retries goes by its group."""
        owner = retry_group(topic) if is_retry_topic(topic) else dead_letter_group(topic)
        if owner is not None:
            return self.knows_group(owner)
        return self.reads(topic) or self._may(Action.GET, ResourceType.TOPIC, access_name(topic))

    def sees(self, hop: JourneyHop) -> bool:
        """True if it may see a hop."""
        if hop.group and not self.knows_group(hop.group):
            return False
        return not hop.topic or self.knows_topic(hop.topic)
