"""What every test run has: a Hypothesis profile whose failures can be repeated."""

import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.support.amqp_servers import amqp_port  # noqa: F401 - for every test of the AMQP door: started once

# A failing example is printed with the blob that repeats it; no deadline, since machines differ in speed.
settings.register_profile("entrepot", print_blob=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", settings.get_profile("entrepot"), max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "entrepot"))


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A test that runs a command in its process sets the log up for a standard error that is gone with it."""
    yield
    structlog.reset_defaults()
