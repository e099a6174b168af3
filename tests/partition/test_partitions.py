"""Contract row 20, the network: a part that others cannot reach costs bounded time and typed errors, and comes back by
itself.  The bounds are those of the settings, in `deployment`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest

from tests.partition.client import HttpClient, key_of_broker, receive_path
from tests.partition.deployment import (
    ANSWER_BOUND,
    AWAY_BOUND,
    BACK_BOUND,
    BROKERS,
    CONNECT_BOUND,
    INVISIBLE_SECONDS,
    LEASE_BOUND,
    NAME_SERVERS,
    Deployment,
)
from tests.partition.load import Line, Load
from tests.support.soak_table import tell
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("partition"), pytest.mark.timeout(300)]
ENOUGH = 30


def _more(lines: Iterable[Line], count: int = ENOUGH) -> Callable[[], bool]:
    """Whether each has confirmed so many more than now."""
    wanted = [(line, len(line.confirmed) + count) for line in lines]
    return lambda: all(len(line.confirmed) >= at for line, at in wanted)


def _measured(what: str, condition: Callable[[], object], bound: float, told: Callable[[], str] | str = "") -> None:
    """Wait for it, and say how long it took."""
    begun = time.monotonic()
    wait_until(condition, lambda: f"{what}\n{told() if callable(told) else told}", bound)
    print(f"{what}: {time.monotonic() - begun:.2f} s of {bound:g} s")


_GATEWAY_TO_BROKER = ("gateway", BROKERS[1])
_BROKER_TO_GATEWAY = (BROKERS[1], "gateway")


@pytest.mark.failure(
    "A gateway cannot reach a broker",
    group="Network",
    does=("It knows so once `cluster.silence_seconds` (5) are over. The others go on; what must go there is refused."),
    lost="nothing confirmed",
    told="`cluster show` at that gateway",
)
@pytest.mark.parametrize(
    ("topic", "cuts"),
    [
        ("both", [_GATEWAY_TO_BROKER, _BROKER_TO_GATEWAY]),
        ("there", [_GATEWAY_TO_BROKER]),
        ("back", [_BROKER_TO_GATEWAY]),
    ],
)
def test_a_gateway_goes_on_without_a_broker_that_it_cannot_reach(
    deployment: Deployment, topic: str, cuts: list[tuple[str, str]]
) -> None:
    load = Load(deployment, topic)
    client = HttpClient(deployment)
    with deployment.healed_after():
        load.start()
        try:
            _measured("all go", _more(load.lines), PATIENCE_SECONDS, load.told)
            assert sum(line.failures for line in load.lines) == 0, load.told()
            for cut in cuts:
                deployment.network.cut(*cut)
            # a refusal of what was not done means that the gateway knows: nothing is sent there any more
            _measured("known to be away", lambda: load.http_keyed[1].refused, AWAY_BOUND + ANSWER_BOUND, load.told)
            # else they would be done when nobody expects it any more, behind what is asked over a new connection
            assert deployment.gateway.bytes_in_wait(BROKERS[1]) == 0, (
                "requests that were given up are still on their way"
            )
            _measured("the others go on", _more(load.nearby), ANSWER_BOUND, load.told)
            failures = [line.failures for line in load.nearby]
            popped = len(load.popped)
            _measured("pops go on", lambda: len(load.popped) >= popped + ENOUGH, ANSWER_BOUND, load.told)
            _measured("the others go on without failures", _more(load.nearby), ANSWER_BOUND, load.told)
            if len(cuts) > 1:  # long enough for a try to connect again to fail, too
                _measured("tried again", lambda: client.problem(BROKERS[1]).endswith("in time"), CONNECT_BOUND)
            assert [line.failures for line in load.nearby] == failures, load.told()
            deployment.network.heal()
            _measured("all go again", _more(load.lines, 1), BACK_BOUND, load.told)
            load.stop_producing()
            _measured("all is there", load.is_all_here, INVISIBLE_SECONDS + PATIENCE_SECONDS, load.told)
        finally:
            load.stop()
            client.close()
        print(load.told())
        load.check(len(cuts))
        # of what may go anywhere, only what was under way when the packets vanished may have failed
        assert load.http_any.failures + load.mqtt_any.failures <= 4, load.told()
        assert load.http_keyed[0].failures == load.mqtt_keyed[0].failures == 0, load.told()
        assert all(line.failures for line in load.far), load.told()
        for line in load.lines:
            assert line.longest <= ANSWER_BOUND, load.told()
        assert load.longest_pop <= ANSWER_BOUND, load.told()


@pytest.mark.failure_also("Name servers die or are out of reach, one or all")
def test_brokers_that_no_name_server_hears_go_on_and_are_known_again(deployment: Deployment) -> None:
    client = HttpClient(deployment)
    with deployment.healed_after():
        wait_until(lambda: all(client.brokers()), "every broker is there")
        assert client.publish("known", "before").status < 300
        for broker in BROKERS:
            for name_server in NAME_SERVERS:
                deployment.network.part(broker, name_server)
        for name_server in NAME_SERVERS:
            _measured("leases end", lambda name=name_server: _alive(deployment, name) == [], LEASE_BOUND)  # type: ignore[misc]
        for number in range(len(BROKERS)):
            assert client.publish("known", "during", key_of_broker(number)).status < 300
            assert client.publish("fresh", "during", key_of_broker(number)).status < 300
        assert client.brokers() == [True, True]

        late = deployment.start_gateway("late")
        other = HttpClient(deployment, late)
        for number in range(len(BROKERS)):
            assert other.publish("known", "late", key_of_broker(number)).status < 300
        assert len(other.receive("fresh", "late").body["value"]) == len(BROKERS)
        other.close()
        deployment.end(late)

        deployment.network.heal()
        for name_server in NAME_SERVERS:
            _measured("known again", lambda name=name_server: _with_topic(deployment, name, "fresh"), BACK_BOUND)  # type: ignore[misc]
    client.close()
    tell("brokers that no name server hears", messages=8, faults=4)


def _alive(deployment: Deployment, name_server: str) -> list[str]:
    return [route.broker.name for route in deployment.routes(name_server).brokers if route.is_alive]


def _with_topic(deployment: Deployment, name_server: str, topic: str) -> bool:
    """Whether every broker is known to be there, and to have a topic."""
    routes = [route for route in deployment.routes(name_server).brokers if route.is_alive]
    having = [r.broker.name for r in routes if topic in {each.name for each in r.registration.topics}]
    return having == list(BROKERS)


@pytest.mark.failure_also("Name servers die or are out of reach, one or all")
def test_a_gateway_needs_no_name_server_once_it_knows_the_brokers(deployment: Deployment) -> None:
    load = Load(deployment, "nameless")
    client = HttpClient(deployment)
    with deployment.healed_after():
        load.start()
        try:
            _measured("all go", _more(load.lines), PATIENCE_SECONDS, load.told)
            for name_server in NAME_SERVERS:
                deployment.network.part("gateway", name_server)
            _measured("known to be away", lambda: client.name_servers() == [False, False], AWAY_BOUND)
            _measured("all go on", _more(load.lines), ANSWER_BOUND, load.told)
            deployment.network.heal()
            _measured("known to be there", lambda: client.name_servers() == [True, True], BACK_BOUND)
            load.stop_producing()
            _measured("all is there", load.is_all_here, INVISIBLE_SECONDS + PATIENCE_SECONDS, load.told)
        finally:
            load.stop()
            client.close()
        load.check(2)
        assert sum(line.failures for line in load.lines) == 0, load.told()


@pytest.mark.failure_also("A gateway cannot reach a broker")
def test_a_pop_that_waits_is_answered_though_a_broker_is_away(deployment: Deployment) -> None:
    """On both brokers it is answered when the other one has something, on the one that is away with an error."""
    shared, alone, client = HttpClient(deployment), HttpClient(deployment), HttpClient(deployment)
    with deployment.healed_after():
        wait_until(lambda: all(client.brokers()), "every broker is there")
        definition = {"queues": 4, "placement": {BROKERS[1]: 4}}
        assert client.ask("PUT", "/api/v1/topics/placed", definition).status < 300
        for topic in ("placed", "shared"):
            assert client.receive(topic, "waiting").status < 300
        begun = time.monotonic()
        shared.begin("POST", receive_path("shared", "waiting", wait=30))
        alone.begin("POST", receive_path("placed", "waiting", wait=30))
        # both brokers are asked by this one behind those: they wait there when it is answered
        assert client.brokers() == [True, True]
        deployment.network.part("gateway", BROKERS[1])
        answer = client.receive("shared", "others", wait=1)
        assert answer.seconds <= 1 + ANSWER_BOUND
        published = time.monotonic()
        assert client.publish("shared", "here", key_of_broker(0)).status < 300
        answer = shared.answer(begun)
        print(f"a pop of both was answered {time.monotonic() - published:.2f} s after the publish")
        assert [item["event"]["data"] for item in answer.body["value"]] == ["here"]
        assert time.monotonic() - published <= ANSWER_BOUND
        answer = alone.answer(begun)
        print(f"a pop of the one away was answered after {answer.seconds:.2f} s: {answer.body}")
        assert answer.is_typed_refusal
        assert answer.seconds <= AWAY_BOUND + ANSWER_BOUND
        assert client.receive("placed", "waiting", wait=30).seconds <= ANSWER_BOUND
        assert client.publish("placed", "refused").status == 503

        deployment.network.heal()
        _measured("there again", lambda: client.brokers() == [True, True], BACK_BOUND)
        assert client.publish("placed", "again").status < 300
        answer = client.receive("placed", "waiting", wait=10)
        assert [item["event"]["data"] for item in answer.body["value"]] == ["again"]
    for each in (shared, alone, client):
        each.close()
    tell("a pop that waits while a broker is away", messages=2, faults=1)
