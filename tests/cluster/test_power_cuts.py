"""Machines that lose power, one, two or all at a moment, and with it all that they had not synced.

What was confirmed by two disks is there, once, in the logs of all; and the group confirms again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.brokers.forgetful_disk import Losses, refusal
from tests.support.brokers.forgetful_machines import MACHINES, ForgetfulMachines, names_in
from tests.support.doors.load import Load
from tests.support.seed import seeded
from tests.support.spark.topic_log import digest
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

pytestmark = pytest.mark.xdist_group("power cuts")
ROUNDS = scaled(1, 30)
STEPS = scaled(30, 300)


@pytest.fixture(scope="module", params=["in-sync", pytest.param("2-3", marks=pytest.mark.soak)])
def machines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForgetfulMachines]:
    why = refusal()
    if why is not None:
        pytest.skip(why)
    made = ForgetfulMachines(tmp_path_factory.mktemp("power"), request.param)
    try:
        made.start()
        made.wait_in_sync(3)
        yield made
    finally:
        made.close()


@pytest.mark.scaled
@pytest.mark.timeout(120 + 40 * ROUNDS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_nothing_confirmed_is_lost_by_cuts_of_power(machines: ForgetfulMachines, count: int) -> None:
    rng, total, faults = seeded(str(count)), Losses(), 0
    topic = f"power-{count}"
    load = Load(machines.gateways, topic)
    load.begin(http=scaled(1, 2), mqtt=scaled(1, 2), consumers=scaled(1, 2))
    try:
        for _ in range(ROUNDS):
            wait_until(load.made(20), machines.log_text)
            cut = rng.sample(MACHINES, count)
            first = machines.disks[cut[0]]
            first.stop_after(rng.randrange(STEPS))
            wait_until(lambda first=first: first.has_stopped, "it writes")
            time.sleep(rng.uniform(0, 0.1))  # in which it says what it can say without its disk
            losses = machines.cut_power(cut, rng.choice([rng, None]))
            total.names, total.sectors, faults = total.names + losses.names, total.sectors + losses.sectors, faults + 1
            if count == 1:
                wait_until(load.made(20), machines.log_text)
            if scaled(False, True):
                faults += machines.start_through_cuts(cut, rng)
            else:
                machines.start_there(cut)
            machines.wait_in_sync(3)
        report = load.finish(f"power of {count} machines cut", faults)
    except BaseException:
        print(machines.log_text())
        raise
    finally:
        load.stop()
    print(f"power of {count} cut {faults} times, forgotten: {total}")
    assert report.is_clean, report
    machines.wait_even()
    assert machines.compare().differences == []
    logs = [machines.log_of(topic)]
    if scaled(False, True):
        logs += machines.logs_of(topic)
    assert len({digest(rows) for rows in logs}) == 1
    for rows in logs:
        found = names_in(rows)
        assert load.promises.confirmed - found.keys() == set(), "lost"
        assert found.keys() - load.promises.sent == set(), "phantom"
        assert [name for name, times in found.items() if times > 1] == [], "doubled"
