"""Settings of bridges: what is refused, and in which words."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from entrepot.domain.routing.topic_filter import matches, overlap
from entrepot.gateway.settings import LoadedSettings, SettingsError, load_settings
from tests.support.cases import cases

RULE = {"direction": "both", "filter": "a/#"}


def loaded(**remote: Any) -> LoadedSettings:
    given = {"name": "old", "url": "mqtt://example.com", "rules": [RULE], **remote}
    return load_settings(flags={"bridge.remotes": json.dumps([given])})


def test_what_is_left_out_has_a_default() -> None:
    [remote] = loaded().settings.bridge.remotes
    assert remote.address == ("example.com", 1883)
    assert loaded(url="mqtts://[::1]").settings.bridge.remotes[0].address == ("::1", 8883)
    assert remote.session_name == "entrepot-bridge-old"
    assert (remote.version, remote.rules[0].qos, remote.rules[0].start) == (5, 1, "latest")


@cases(
    "remote, word",
    [
        ({"name": "a b"}, "64 characters"),
        ({"url": "mqtt://me:secret@example.com"}, "credentials"),
        ({"url": "http://example.com"}, "mqtt://host"),
        ({"url": "mqtt://example.com:99999"}, "ort"),
        ({"url": "mqtt://example.com/x"}, "mqtt://host"),
        ({"url": "mqtt://exam ple.com"}, "no blanks"),
        ({"url": "mqtt://example.com\t"}, "no blanks"),
        ({"url": "mqtt://exam\x00ple.com"}, "no control characters"),
        ({"url": "mqtt://"}, "names no host"),
        ({"url": "mqtt://example.com:0"}, "from 1 to 65535"),
        ({"url": "mqtt://example.com#x"}, "it goes on after the port"),
        ({"ca_file": "ca.pem"}, "mqtts"),
        ({"url": "mqtts://h", "key_file": "k.pem"}, "cert_file"),
        ({"password_file": "p"}, "username"),
        ({"announce_bridge": True}, "version 4"),
        ({"version": 3}, "4 or 5"),
        ({"version": 4}, "would come back"),
        ({"rules": []}, "at least 1"),
        ({"rules": [{**RULE, "filter": "a/#/b"}]}, "not an MQTT topic filter"),
        ({"rules": [{**RULE, "local_prefix": "x+/"}]}, "cannot begin"),
        ({"rules": [{**RULE, "filter": "$SYS/#"}]}, "the server's own"),
        ({"rules": [{**RULE, "qos": 2}]}, "less than or equal to 1"),
        ({"rules": [{**RULE, "local_prefx": "x/"}]}, "did you mean 'local_prefix'"),
        ({"keepalive_seconds": 9}, "did you mean 'keep_alive_seconds'"),
    ],
)
def test_what_cannot_be(remote: dict[str, Any], word: str) -> None:
    with pytest.raises(SettingsError) as caught:
        loaded(**remote)
    assert word in str(caught.value)


def test_two_remotes_of_one_name() -> None:
    remote = {"name": "old", "url": "mqtt://h", "rules": [RULE]}
    with pytest.raises(SettingsError, match="one name"):
        load_settings(flags={"bridge.remotes": json.dumps([remote, remote])})


def test_a_3_1_1_remote_may_go_both_ways_under_different_names_or_if_it_knows_bridges() -> None:
    rules = [{"direction": "in", "filter": "a/#"}, {"direction": "out", "filter": "b/#"}]
    assert loaded(version=4, rules=rules).settings.bridge.remotes
    assert loaded(version=4, announce_bridge=True).settings.bridge.remotes


FILTERS = ["a", "a/b", "a/+", "+/b", "#", "a/#", "+", "+/+", "a/b/#", "b/#", "b", "/", "a/", "+/#"]


@cases("one, other", list(product(FILTERS, FILTERS)))
def test_filters_overlap_when_there_is_a_name_for_both(one: str, other: str) -> None:
    levels = ("a", "b", "", "c")
    names = ["/".join(path) for depth in (1, 2, 3, 4) for path in product(levels, repeat=depth)]
    both = any(matches(one, name) and matches(other, name) for name in names if name)
    assert overlap(one.split("/"), other.split("/")) == both
