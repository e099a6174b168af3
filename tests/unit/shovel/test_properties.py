"""Properties of messages that are carried."""

from __future__ import annotations

from pamqp.commands import Basic

from entrepot.gateway.shovel.properties import carried_properties


def test_what_is_fine_stays() -> None:
    given = Basic.Properties(user_id="app", headers={"a": 1, "BCC": ["x"]}, message_id="m", priority=3)
    carried, is_changed = carried_properties(given, "app", None)
    assert carried is given and not is_changed
    assert (carried.user_id, carried.headers) == ("app", {"a": 1, "BCC": ["x"]})
    assert carried_properties(Basic.Properties(), "app", None)[1] is False


def test_another_users_name_goes() -> None:
    carried, is_changed = carried_properties(Basic.Properties(user_id="app"), "mover", None)
    assert carried.user_id is None and is_changed


def test_further_routing_keys_route_no_more() -> None:
    carried, is_changed = carried_properties(Basic.Properties(headers={"CC": ["q2"], "a": 1}), "app", None)
    assert carried.headers == {"x-cc": ["q2"], "a": 1} and is_changed


def test_the_origin_is_written_where_it_is_wanted() -> None:
    carried, is_changed = carried_properties(Basic.Properties(), "app", ("shop", "a.b"))
    assert carried.headers == {"x-original-exchange": "shop", "x-original-routing-key": "a.b"} and not is_changed
