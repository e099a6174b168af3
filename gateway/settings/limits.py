"""The settings of limits for MQTT clients, users and the gateway as a whole; 0 means no limit."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from entrepot.domain.routing.topic_filter import DEFAULT_LEVELS, MAX_LEVELS
from entrepot.gateway.settings.table import Seconds, Table

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[int, Field(ge=0)]


class MqttLimitSettings(Table):
    """Limits on MQTT clients behind their listener."""

    max_connects_per_second: Rate = Field(0, description="Maximum CONNECTs to this gateway each second; 0: no limit")
    max_connects_per_client: Limit = Field(
        0, description="Maximum CONNECTs of one client id and address in 10 s; beyond it a ban; 0: no limit"
    )
    client_ban_seconds: Seconds = Field(60, description="Duration of the ban on a client that connects too often")
    max_connections_per_user: Limit = Field(0, description="Maximum connections of a user to this gateway; 0: no limit")
    max_sessions: Limit = Field(
        0, description="Maximum persistent sessions of all gateways, counted periodically; 0: no limit"
    )
    max_topic_levels: int = Field(
        DEFAULT_LEVELS, ge=1, le=MAX_LEVELS, description="Maximum levels of a topic name or filter"
    )
    max_publishes_per_second_per_client: Rate = Field(
        0, description="Maximum publish rate of a client, in messages each second; above it reading slows; 0: no limit"
    )
    max_publish_bytes_per_second_per_client: Rate = Field(
        0, description="Maximum publish rate of a client, in payload bytes each second; 0: no limit"
    )
    max_publishes_per_second_per_user: Rate = Field(
        0, description="Maximum publish rate of a user on this gateway, in messages each second; 0: no limit"
    )
    max_publish_bytes_per_second_per_user: Rate = Field(
        0, description="Maximum publish rate of a user on this gateway, in payload bytes each second; 0: no limit"
    )
    publish_patience_seconds: Seconds = Field(
        30, description="Longest delay by publish rates; a client that needs a longer one is disconnected; 0: no limit"
    )
