"""gRPC's health service (grpc.health.v1): what load balancers and orchestrators ask."""

from __future__ import annotations

from typing import Any, Final

from entrepot.protocols.grpc.described import described_file, message_types

SERVICE: Final = "grpc.health.v1.Health"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
FILE: Final = described_file(
    "grpc/health/v1/health.proto",
    "grpc.health.v1",
    {"HealthCheckRequest": {"service": (1, "string")}, "HealthCheckResponse": {"status": (1, "ServingStatus")}},
    {"ServingStatus": {"UNKNOWN": 0, "SERVING": SERVING, "NOT_SERVING": NOT_SERVING, "SERVICE_UNKNOWN": 3}},
    "Health",
    {
        "Check": ("HealthCheckRequest", "HealthCheckResponse", False, False),
        "Watch": ("HealthCheckRequest", "HealthCheckResponse", False, True),
    },
)
_TYPES: Final = message_types(FILE)
Request: Final[Any] = _TYPES["HealthCheckRequest"]
Response: Final[Any] = _TYPES["HealthCheckResponse"]
