"""The settings of limits for MQTT clients, users and the gateway as a whole; 0 is no limit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entrepot.domain.routing.topic_filter import DEFAULT_LEVELS, MAX_LEVELS
from entrepot.gateway.settings.table import Seconds, Table

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=0)]


class MqttLimitSettings(Table):
    """Admission of MQTT clients beyond what their listener takes."""

    max_connects_per_second: Rate = Field(0, description="CONNECTs of this gateway each second; 0 for any number")
    max_connects_per_client: Limit = Field(
        0, description="CONNECTs of one client id and address within 10 s; beyond it is banned; 0 for any number"
    )
    client_ban_seconds: Seconds = Field(60, description="How long a client that connects too often is refused")
    max_connections_per_user: Limit = Field(0, description="Connections of one user to this gateway; 0 for any number")
    max_sessions: Limit = Field(
        0, description="Sessions that outlive their connection, of all gateways, counted now and then; 0 for any number"
    )
    max_topic_levels: int = Field(
        DEFAULT_LEVELS, ge=1, le=MAX_LEVELS, description="Levels of a topic name or filter that clients may use"
    )
    max_publishes_per_second_per_client: Rate = Field(
        0, description="Messages a client may publish each second before it is read more slowly; 0 for any number"
    )
    max_publish_bytes_per_second_per_client: Rate = Field(0, description="The same of the bytes of their payloads")
    max_publishes_per_second_per_user: Rate = Field(
        0, description="Messages that all connections of a user to this gateway may publish each second"
    )
    max_publish_bytes_per_second_per_user: Rate = Field(0, description="The same of the bytes of their payloads")
    publish_patience_seconds: Seconds = Field(
        30, description="A client that would have to wait for longer because of its rates is disconnected; 0: never"
    )
