"""Large messages over the wire and over replicas: as they lie in the log, and as they come from the next master."""

from __future__ import annotations

from pathlib import Path

import pika  # type: ignore[import-untyped]
import pytest

from tests.support.processes.replicated_processes import ReplicatedProcesses

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]


def test_the_next_master_has_them(tmp_path: Path) -> None:
    sent = [bytes([number]) * (size << 20) for number, size in enumerate((1, 100, 20, 127))]
    with ReplicatedProcesses(tmp_path, "2-3", replicas=3, gateways=1) as cluster:
        cluster.wait_in_sync(3)
        port = cluster.gateways[0].port("amqp")
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = connection.channel()
        channel.queue_declare("large", durable=True)
        channel.confirm_delivery()
        for body in sent:
            channel.basic_publish("", "large", body)
        master = cluster.master()
        cluster.replica(master).kill()
        cluster.elect()
        assert cluster.master() not in (0, master)
        found = []
        for method, _, body in channel.consume("large", inactivity_timeout=30):
            assert method is not None, "it comes"
            found.append(body)
            channel.basic_ack(method.delivery_tag)
            if len(found) == len(sent):
                break
        assert found == sent
        connection.close()
        cluster.replica(master).start()
        cluster.wait_in_sync(3)
