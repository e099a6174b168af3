"""Seconds that a test of the default tier may take, and the words for one that takes longer."""

from __future__ import annotations

import os
from typing import Final

from tests.tiers.run import plain
from tests.tiers.speed import slowness

BUDGET_SECONDS: Final = 5.0
"""For setup, call and teardown each, on the reference machine; what fixtures share with other tests is not counted."""
USUAL_LOAD: Final = 2.0
"""Processes for each core that want to run while the tier does; where there are more, a test has more time."""

LONG_TESTS: Final[dict[str, str]] = {
    "tests/cluster/test_joining.py::test_workers_share_the_ports_and_one_that_is_killed_is_started_again": (
        "worker processes, one of them started again"
    ),
    "tests/crash/test_retention_live.py::test_what_is_too_old_goes_while_the_broker_runs": (
        "a real disk, segment by segment"
    ),
    "tests/crash/test_formats.py::test_a_store_of_this_format": "a process fills a store and is killed, on a slow disk",
    "tests/e2e/http/test_http_security.py::test_from_the_first_user_to_a_restart": "a dozen commands and a restart",
    "tests/e2e/spark/test_doors.py::test_what_a_door_publishes_is_a_row": "the first query that Spark compiles",
    "tests/e2e/spark/test_job.py::test_a_fleet_with_faults": "the whole job: a table, its derived tables, the page",
    "tests/e2e/spark/test_sink.py::test_a_table_becomes_messages": "the first write of Spark's Python workers",
    "tests/e2e/test_installed.py::test_the_wheel_serves_from_a_foreign_folder": "a venv, pip, a first start",
    "tests/e2e/test_make_cluster.py::test_what_one_gateway_takes_another_gives_and_a_stop_ends_all": (
        "six processes, started as a user starts them"
    ),
    "tests/e2e/test_private_directory.py::test_stores_are_for_their_user_alone": "three starts of a server",
    "tests/e2e/test_every_door_through_kills.py::test_every_pair_of_doors_through_kills_of_one_process": (
        "two rounds of kills, with messages from every door to every other"
    ),
    "tests/e2e/test_every_door_through_kills.py::test_every_pair_of_doors_through_kills_of_gateways_and_brokers": (
        "the same in a cluster"
    ),
    "tests/e2e/spark/test_cold.py::test_a_batch_is_the_log_and_spares_the_brokers": "the first query over segments",
}
"""The few that may take longer, by file and function, each with its reason."""
MAX_LONG_TESTS: Final = 13


def excess(test: str, phase: str, seconds: float) -> str | None:
    """Words for a test whose phase took too long; None where it did not.  `test`: a node id."""
    name = plain(test).split("[")[0]
    if seconds <= BUDGET_SECONDS or name in LONG_TESTS:
        return None
    allowed = BUDGET_SECONDS * _slowness_under_load()  # asked only here: the answer costs a tenth of a second
    if seconds <= allowed:
        return None
    return (
        f"{phase} took {seconds:.1f} s; a test of the default tier has {BUDGET_SECONDS:g} s ({allowed:.1f} s on this "
        f"machine now).\n{name} belongs in the soak tier (pytest.mark.soak) if it kills, floods or searches for long, "
        "in interop\n(pytest.mark.interop) if it waits for other people's programs; else make it cheaper. "
        "See CONTRIBUTING.md."
    )


def _slowness_under_load() -> float:
    """The slowness of a moment, times what the last minute's load adds: other work takes turns, and moments."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return slowness() * max(1.0, load / USUAL_LOAD)
