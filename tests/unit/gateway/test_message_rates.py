"""Rates of RabbitMQ's management API: where there are some, and of what time."""

from __future__ import annotations

from entrepot.gateway.operations.rabbitmq.message_stats import MessageRates


def test_a_rate_is_of_the_last_seconds_or_is_not_there() -> None:
    now, totals = [100.0], {"publish": 10, "ack": 0}
    rates = MessageRates(lambda: {"q": dict(totals)}, lambda: now[0])

    def asked() -> dict[str, object]:
        rates.look()
        return rates.stats("q", totals)

    assert asked() == {"publish": 10, "ack": 0}  # nothing to compare with
    now[0], totals["publish"] = 102.0, 30
    assert asked() == {"publish": 30, "ack": 0}
    now[0], totals["publish"] = 105.0, 60
    assert asked() == {"publish": 60, "ack": 0, "publish_details": {"rate": 10.0}, "ack_details": {"rate": 0.0}}
    now[0], totals["ack"] = 107.0, 7
    assert asked()["ack_details"] == {"rate": 1.0}
    now[0] = 110.0
    assert asked()["publish_details"] == {"rate": 0.0}
    assert rates.stats("new", {"publish": 5})["publish_details"] == {"rate": 1.0}
    totals["publish"] = 0  # another queue of the same name
    assert asked()["publish_details"] == {"rate": 0.0}
    now[0] = 1000.0
    assert asked() == {"publish": 0, "ack": 7}  # too long ago
    now[0] = 1005.0
    assert "publish_details" in asked()
