"""GrpcTerms: the methods and limits that all connections of a gRPC server share."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from entrepot.gateway.rocketmq.grpc.call import Method
from entrepot.gateway.transport.deadlines import DeadlineWheel
from entrepot.protocols.http2.events import Http2Limits


@dataclass(frozen=True, slots=True)
class GrpcTerms:
    """`methods` by their paths.  `max_request_bytes`: of one request; a connection that is not admitted yet keeps no
    more than that in all.  `request_seconds`: longest time for a request to come, for the first one of somebody known,
    and for a client to take a byte of an answer.  `write_limit`: bytes of answers that wait for one socket, and for a
    stranger's windows."""

    methods: Mapping[bytes, Method]
    loop: asyncio.AbstractEventLoop
    wheel: DeadlineWheel
    max_request_bytes: int
    request_seconds: float
    write_limit: int
    http2: Http2Limits
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    """Calls under way.  A loop holds its tasks weakly."""
