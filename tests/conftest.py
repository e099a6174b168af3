"""Common to every test run: the tiers, and Hypothesis profiles whose failures can be repeated."""

import gc
import logging
import os
import sys
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from entrepot.gateway.log import LogHandler
from tests.support.amqp.servers import amqp_port  # noqa: F401 - for every test of the AMQP door: started once
from tests.support.rocketmq.cluster import rocketmq_cluster  # noqa: F401 - for every test at RocketMQ: started once

pytest_plugins = ("tests.tiers.plugin", "tests.tiers.folders", "pytester")

# By a bare name, a string to patch or a program in a string would load a second copy of a module, and test nothing.
sys.modules.update(dict.fromkeys(("broker", "domain", "gateway", "protocols", "spark_ingest", "store_client")))  # type: ignore[arg-type]

# A failing example is printed with the blob that repeats it; no deadline, since machines differ in speed.
settings.register_profile(
    "default", max_examples=60, print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", settings.get_profile("default"), max_examples=1000)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A test that runs a command in its process sets the log up for a standard error that is gone with it.  Whatever
    has its descriptor next would get every line of later tests: once that was the socket of an S3 client."""
    yield
    structlog.reset_defaults()
    root = logging.getLogger()
    root.handlers[:] = [each for each in root.handlers if not isinstance(each, LogHandler)]


MANY_DESCRIPTORS = 300


@pytest.fixture(autouse=True)
def few_descriptors() -> Iterator[None]:
    """Clients of others keep sockets until garbage is looked for, and wait with select(), which knows 1,024 alone."""
    yield
    if len(os.listdir("/proc/self/fd")) > MANY_DESCRIPTORS:
        gc.collect()
