"""What the MQTT door tells of itself: `$SYS` topics and metrics."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from entrepot.protocols.mqtt.packets import Pingreq, Pingresp, Puback, Publish
from entrepot.protocols.mqtt.reason_codes import ReasonCode
from tests.support.mqtt.client import RawClient
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture(scope="module")
def told(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deploy(tmp_path_factory.mktemp("figures"), {"mqtt.sys_interval_seconds": "0.2"}) as running:
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.log_text(), running.log_text()


class Figures(dict[tuple[str, frozenset[str]], float]):
    """Samples by name and the values of their labels."""

    def of(self, name: str, *labels: str) -> float:
        return self.get((name, frozenset(labels)), 0)


def metrics_text(server: Deployment) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port('http')}/metrics", timeout=PATIENCE_SECONDS) as answer:
        text: str = answer.read().decode()
    return text


def metrics(server: Deployment) -> Figures:
    """Figures made after the call: a text that was dear is the answer for a second, and a later one differs from it."""
    kept = text = metrics_text(server)
    while text == kept:
        text = metrics_text(server)
    return Figures(
        ((sample.name, frozenset(sample.labels.values())), sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    )


def test_the_sys_topics_are_those_of_mosquitto(told: Deployment) -> None:
    """Their names and the form of their values, as its clients and dashboards expect them."""
    with RawClient(told.port("mqtt")) as reader:
        reader.connect("sys-all")
        reader.subscribe("$SYS/#")
        values = {delivery.topic: delivery.payload.decode() for delivery in reader.expect_deliveries(60)}
    assert int(values["$SYS/broker/clients/connected"]) >= 1
    assert values["$SYS/broker/version"].startswith("entrepot version")
    assert float(values["$SYS/broker/load/connections/1min"]) >= 0
    assert all(int(value) >= 0 for name, value in values.items() if "/messages/" in name and "load" not in name)


@pytest.mark.interop
def test_mosquitto_sub_reads_the_sys_topics(told: Deployment) -> None:
    command = [
        "mosquitto_sub",
        "-p",
        str(told.port("mqtt")),
        "-t",
        "$SYS/#",
        "-v",
        "-C",
        "60",
        "-W",
        f"{PATIENCE_SECONDS:.0f}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    values = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines() if "load" not in line)
    assert int(values["$SYS/broker/clients/connected"]) >= 1
    assert "$SYS/broker/version entrepot version" in done.stdout
    assert "$SYS/broker/load/connections/1min" in done.stdout


def test_values_are_current_for_who_comes_and_live_from_then(told: Deployment) -> None:
    with RawClient(told.port("mqtt")) as reader, RawClient(told.port("mqtt"), 4) as other:
        reader.connect("sys-reader")
        reader.subscribe("$SYS/broker/clients/connected")
        (current,) = reader.expect_deliveries(1)
        assert current.retain
        assert current.qos == 0
        other.connect("sys-other")
        live = current
        while int(live.payload) != 2:  # the value for who comes is that of the last interval
            (live,) = reader.expect_deliveries(1)
            assert not live.retain


def test_wildcards_and_publishers_do_not_reach_them(told: Deployment) -> None:
    with RawClient(told.port("mqtt")) as all_names, RawClient(told.port("mqtt")) as reader:
        all_names.connect("all-names")
        all_names.subscribe("#", "+/broker/uptime")
        reader.connect("uptime")
        reader.subscribe("$SYS/broker/uptime")
        reader.expect_deliveries(3)  # it went by twice while the other was subscribed
        all_names.publish("figures/x", b"mine")
        assert [delivery.topic for delivery in all_names.expect_deliveries(1)] == ["figures/x"]
        assert reader.publish("$SYS/broker/uptime", b"lie").reason == ReasonCode.NOT_AUTHORIZED


def test_packets_are_counted_by_version_type_and_direction(told: Deployment) -> None:
    before = metrics(told)
    with RawClient(told.port("mqtt"), 4) as client:
        client.connect("counted")
        client.subscribe("counted/#")
        client.say(*[Publish("counted/x", b"x" * 10, 1, number + 1) for number in range(7)])
        for _ in range(7):
            client.expect(Puback)
        client.expect_deliveries(7)
        client.say(Pingreq())
        client.expect(Pingresp)
        wait_until(lambda: metrics(told).of("entrepot_mqtt_inflight_messages") == 0, "all is acknowledged")
        after = metrics(told)
        assert after.of("entrepot_mqtt_connections", "3.1.1") == 1

    def grown(*key: str) -> float:
        return after.of(*key) - before.of(*key)

    packets = "entrepot_mqtt_packets_total"
    for kind, count_in, count_out in (
        ("CONNECT", 1, 0),
        ("CONNACK", 0, 1),
        ("SUBSCRIBE", 1, 0),
        ("SUBACK", 0, 1),
        ("PUBLISH", 7, 7),
        ("PUBACK", 7, 7),
        ("PINGREQ", 1, 0),
        ("PINGRESP", 0, 1),
    ):
        assert grown(packets, "3.1.1", kind, "in") == count_in, kind
        assert grown(packets, "3.1.1", kind, "out") == count_out, kind
    assert grown("entrepot_mqtt_publishes_total", "3.1.1", "1") == 7
    assert grown("entrepot_mqtt_connects_total", "3.1.1", "accepted") == 1
    assert grown("entrepot_mqtt_bytes_total", "in") > 70
    assert grown("entrepot_mqtt_bytes_total", "out") > 70
    wait_until(lambda: not metrics(told).of("entrepot_mqtt_connections", "3.1.1"), "it is gone")
    key = (packets, "3.1.1", "PUBLISH", "out")
    assert metrics(told).of(*key) == after.of(*key)


def test_what_is_refused_is_counted_by_its_reason(told: Deployment) -> None:
    before = metrics(told)
    with RawClient(told.port("mqtt")) as client:
        client.connect("refused")
        assert client.publish("$SYS/x").reason == ReasonCode.NOT_AUTHORIZED
        with RawClient(told.port("mqtt"), 4) as nameless:
            nameless.connect("", clean_start=False)
        after = metrics(told)
    for key in (
        ("entrepot_mqtt_refused_total", "not_authorized"),
        ("entrepot_mqtt_connects_total", "3.1.1", "client_identifier_not_valid"),
    ):
        assert after.of(*key) - before.of(*key) == 1


def test_background_work_is_named_and_goes_on(told: Deployment) -> None:
    rounds, name = "sessions that are away", "entrepot_background_"
    first = metrics(told)
    for work in (rounds, "sessions", "retained messages that expired", "queues of gateways that are gone"):
        assert first.of(f"{name}period_seconds", work) > 0, work
    wait_until(lambda: metrics(told).of(f"{name}runs_total", rounds) > first.of(f"{name}runs_total", rounds), "a round")
    assert metrics(told).of(f"{name}failures_total", rounds) == metrics(told).of(f"{name}failing", rounds) == 0
