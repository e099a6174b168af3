"""Controllers as processes: in a name server and by themselves they replace masters that are killed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.gateway.cli.app import run
from entrepot.store_client.remote.controllers import ControllerClients
from tests.support.doors.load import door, event_headers
from tests.support.processes.certificates import TestAuthority
from tests.support.processes.deployment import ControllerProcess, start_all
from tests.support.processes.replicated_processes import ReplicatedProcesses
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicatedProcesses]:
    directory = tmp_path_factory.mktemp("controllers")
    with ReplicatedProcesses(directory, "in-sync", replicas=3, controllers=3) as running:
        running.wait_in_sync(3)
        yield running


def publish(cluster: ReplicatedProcesses, name: str) -> None:
    """Of one event; it waits for a master where there is none."""
    headers = {**event_headers(name), "content-type": "application/json"}
    with door(cluster.gateways[0]) as client:
        answer = client.post("/topics/t:publish", content=b"1", headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text


@pytest.mark.failure(
    "The master's process or machine dies, under `in-sync` or `2-3`",
    group="Replicas of a broker",
    does="After a pause another replica leads. The old master follows it when it is back.",
    lost="nothing confirmed",
    told="`cluster show`: the last election and its reason",
)
def test_a_killed_master_is_replaced_and_publishing_goes_on(cluster: ReplicatedProcesses) -> None:
    publish(cluster, "before")
    old = cluster.master()
    cluster.replica(old).kill()
    publish(cluster, "after")
    assert cluster.master() not in (0, old)
    cluster.replica(old).start()
    cluster.wait_in_sync(3)


@pytest.mark.failure_also("A replica is told to stop")
def test_a_master_that_is_told_to_stop_hands_over(cluster: ReplicatedProcesses) -> None:
    old = cluster.master()
    assert cluster.replica(old).stop() == 0
    assert cluster.master() not in (0, old)
    publish(cluster, "handed over")
    cluster.replica(old).start()
    cluster.wait_in_sync(3)


@pytest.mark.failure(
    "One of three controllers is away",
    group="Controllers and name servers",
    does=("The other two replace a master that is lost meanwhile, even if the leading one dies during the election."),
    lost="nothing",
    told="`cluster show`; alarm: the controller is away",
)
@pytest.mark.parametrize("controller", [1, 2, 3])
def test_any_controller_may_be_missing(cluster: ReplicatedProcesses, controller: int) -> None:
    missing = cluster.controller(controller)
    missing.kill()
    old = cluster.master()
    cluster.replica(old).kill()
    publish(cluster, f"without {missing.name}")
    assert cluster.master() not in (0, old)
    missing.start()
    cluster.replica(old).start()
    cluster.wait_in_sync(3)


@pytest.mark.failure_also("All replicas, or all controllers too, are killed or stopped at once")
def test_a_topic_is_never_unknown_while_all_replicas_start_again(cluster: ReplicatedProcesses) -> None:
    """A slave that has yet to copy its log, or a request that is repeated at one, is no reason to say so."""
    publish(cluster, "before all are killed")
    ended = threading.Event()
    told: Counter[int] = Counter()

    def ask() -> None:
        with door(cluster.gateways[0]) as client:
            while not ended.is_set():
                told[client.get("/api/v1/topics/t/messages", params={"limit": 1}).status_code] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(3):
            for broker in cluster.brokers:
                broker.kill()
            start_all(cluster.brokers)
            cluster.wait_in_sync(3)
    finally:
        ended.set()
        asking.join()
    assert set(told) <= {200, 503} and told[200], told  # most wait for the next master


def entrepot(cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    code = run([*arguments, "--server", f"http://{cluster.gateways[0].address('http')}"])
    told = capsys.readouterr()
    return code, told.out + told.err


def metrics(cluster: ReplicatedProcesses) -> dict[str, float]:
    with door(cluster.gateways[0]) as client:
        lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_operators_elect_through_the_controllers(
    cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = metrics(cluster)['entrepot_broker_elections_total{broker="broker-0"}']
    to = cluster.master() % 3 + 1
    code, told = entrepot(cluster, capsys, "cluster", "elect", "broker-0", "--to", str(to))
    assert (code, told.partition(" in epoch")[0]) == (0, f"replica {to} is master of broker-0")
    assert cluster.master() == to
    election = cluster.group()["election"]
    assert (election["epoch"], election["isUnderWay"], election["problem"]) == (cluster.group()["epoch"], False, None)
    assert f"replica {to}" in election["reason"]
    code, told = entrepot(cluster, capsys, "cluster", "elect", "broker-0", "--to", "9")
    assert (code, "broker 'broker-0' has no replica 9" in told) == (1, True)
    assert metrics(cluster)['entrepot_broker_elections_total{broker="broker-0"}'] == begun + 1
    cluster.wait_in_sync(3)
    wait_until(lambda: metrics(cluster)['entrepot_broker_in_sync_replicas{broker="broker-0"}'] == 3, "the set is known")


def test_operators_see_the_controllers(cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    with door(cluster.gateways[0]) as client:
        found = client.get("/api/v1/controllers").json()["value"]
    assert [each["controller"] for each in found] == [1, 2, 3]
    assert sorted(each["state"] for each in found) == ["follows", "follows", "leads"]
    assert {each["problem"] for each in found} == {None}
    away = cluster.controller(3)
    away.kill()

    def is_led_without_it() -> bool:
        told = metrics(cluster)
        leads = sum(told[f'entrepot_controller_leads{{controller="{number}"}}'] for number in (1, 2, 3))
        return leads == 1 and told['entrepot_controller_available{controller="3"}'] == 0

    wait_until(is_led_without_it, "the others go on")
    code, told = entrepot(cluster, capsys, "cluster", "show")
    assert code == 0
    [row] = [line for line in told.splitlines() if "it does not answer" in line]
    assert row.split()[0] == "3"
    assert "away" in row
    assert f"broker-0: {cluster.group()['election']['reason']} (" in told
    away.start()


def test_operators_say_which_replicas_count(cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.wait_in_sync(3)
    master = cluster.master()
    one, other = (number for number in (1, 2, 3) if number != master)

    def change(*arguments: str) -> tuple[int, str]:
        return entrepot(cluster, capsys, "cluster", "replica", *arguments)

    def observers() -> list[int]:
        return [each["replica"] for each in cluster.group()["replicas"] if each["isObserver"]]

    assert change("observer", "broker-0", str(master))[0] == 1, "a master counts"
    assert change("remove", "broker-0", str(one), "--yes")[1].count("runs: stop it") == 1
    assert change("observer", "broker-0", str(one)) == (0, f"replica {one} of broker-0 is to be an observer\n")
    wait_until(lambda: observers() == [one], lambda: f"{one} observes: {cluster.group()}")
    code, told = change("observer", "broker-0", str(other))
    assert (code, "1 replicas would be left that count, and the rule needs 2" in told) == (1, True)
    code, told = entrepot(cluster, capsys, "cluster", "elect", "broker-0", "--to", str(one))
    assert (code, f"replica {one} is an observer" in told) == (1, True)
    publish(cluster, "with an observer")
    assert change("add", "broker-0", str(one))[0] == 0
    cluster.wait_in_sync(3)
    cluster.replica(one).kill()
    wait_until(lambda: change("remove", "broker-0", str(one), "--yes")[0] == 0, "the controllers miss it")
    wait_until(lambda: observers() == [one], lambda: f"{one} is removed: {cluster.group()}")
    cluster.replica(one).start()
    wait_until(lambda: change("add", "broker-0", str(one))[0] == 0, "it reports")
    cluster.wait_in_sync(3)


def test_a_controller_takes_the_place_of_another(
    cluster: ReplicatedProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    new = cluster.add_controller()
    code, told = entrepot(cluster, capsys, "cluster", "controller", "replace", "3", f"4={new.place}", "--yes")
    assert (code, "start it first, it does not answer" in told) == (1, True)
    new.start()
    code, told = entrepot(cluster, capsys, "cluster", "controller", "replace", "3", f"5={new.place}", "--yes")
    assert (code, "controller 4 is there" in told) == (1, True)
    code, told = entrepot(cluster, capsys, "cluster", "controller", "replace", "3", f"4={new.place}", "--yes")
    assert (code, told) == (0, f"controller 4 at {new.place} is taken in in place of controller 3\n")

    def members() -> dict[int, str]:
        with door(cluster.gateways[0]) as client:
            found = client.get("/api/v1/controllers").json()["value"]
        return {each["controller"]: each["state"] for each in found}

    cluster.controller(3).kill()
    wait_until(lambda: members().keys() == {1, 2, 4}, lambda: f"3 has left: {members()}")
    cluster.controller(2).kill()
    wait_until(lambda: sorted(members().values()) == ["away", "follows", "leads"], lambda: f"two lead: {members()}")
    cluster.controller(2).start()
    code, told = entrepot(cluster, capsys, "cluster", "controller", "remove", "3", "--yes")
    assert (code, "3 is not a member" in told) == (1, True)
    code, told = entrepot(cluster, capsys, "cluster", "controller", "remove", "2", "--yes")
    assert (code, told) == (0, "controller 2 has left\n")


def test_controllers_stop_when_told(cluster: ReplicatedProcesses) -> None:
    for number in (1, 4):
        assert cluster.controller(number).stop() == 0
        cluster.controller(number).start()


def test_a_directory_of_another_controller_ends_it(tmp_path: Path) -> None:
    """With one line that says why."""
    addresses = json.dumps(["1=127.0.0.1:1", "2=127.0.0.1:2"])
    process = ControllerProcess(tmp_path, {"cluster.controllers": addresses, "controller.id": "1"}, "controller")
    process.start()
    assert process.stop() == 0
    process.settings["controller.id"] = "2"
    with pytest.raises(AssertionError, match="ended with 1") as ended:
        process.start()
    assert "is the directory of controller 1, not 2" in str(ended.value)


@pytest.mark.soak
def test_a_group_without_controllers_gets_some(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As documented: the controllers, then one replica after the other, the master last."""
    with ReplicatedProcesses(tmp_path, "2-3", replicas=3) as cluster:
        cluster.wait_in_sync(3)
        publish(cluster, "before")
        cluster.add_controllers(3, 0.5)
        cluster.name_servers[0].stop()
        start_all([cluster.name_servers[0], *cluster.controllers])
        master = cluster.master()
        for replica in sorted((1, 2, 3), key=lambda each: each == master):
            assert cluster.replica(replica).stop() == 0
            cluster.replica(replica).start()
            wait_until(lambda: cluster.group()["isAvailable"], "there is a master")
            cluster.wait_in_sync(3)
        assert "was master when the controllers came" in cluster.group()["election"]["reason"]
        cluster.replica(master).kill()
        publish(cluster, "after")
        assert cluster.master() not in (0, master)
        code, told = entrepot(cluster, capsys, "cluster", "show")  # the gateway is as it was: replicas name them
        assert (code, "follows" in told) == (0, True)
    tell("a group that gets controllers", faults=1, messages=2)


async def test_controllers_speak_tls(tmp_path: Path) -> None:
    """By the settings of the cluster; who shows no certificate is not answered."""
    authority = TestAuthority(tmp_path)
    pair = authority.issue("wire", "127.0.0.1")
    tls = {"cluster.tls_certificate": str(pair), "cluster.tls_key": str(pair), "cluster.tls_ca": str(authority.file)}
    processes = [ControllerProcess(tmp_path, dict(tls), f"controller-{number}") for number in (1, 2, 3)]
    named = {number: each.place for number, each in enumerate(processes, 1)}
    for number, each in enumerate(processes, 1):
        told = json.dumps([f"{other}={place}" for other, place in named.items()])
        each.settings |= {"cluster.controllers": told, "controller.id": str(number)}
    files = ClusterTrust(pair, pair, authority.file)
    clients = ControllerClients(named, LinkSettings(trust=WireTrust.of_client(files)))
    strangers = ControllerClients(named, LinkSettings(trust=WireTrust.of_client(ClusterTrust(ca=authority.file))))
    try:
        await asyncio.to_thread(start_all, processes)

        async def states() -> list[str]:
            return sorted(each.state for each in await clients.statuses())

        async with asyncio.timeout(PATIENCE_SECONDS):
            while await states() != ["follows", "follows", "leads"]:
                await asyncio.sleep(0.05)
        assert {each.state for each in await strangers.statuses()} == {"away"}
    finally:
        await clients.close()
        await strangers.close()
        for each in processes:
            each.kill()
