"""Names of virtual hosts: any text has one namespace, and no two share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_namespace
from entrepot.gateway.amqp.virtual_hosts.vhost_names import check_vhost_name, namespace_of, vhost_of
from tests.support.cases import cases

NAMES = {
    "/": "default",
    "plant": "plant",
    "plant-1_x": "plant-1_x",
    "plant/a.b": "--plant_2Fa_2Eb",
    "a:b@c": "--a_3Ab_40c",
    "a b": "--a_20b",
    "ü": "--_C3_BC",
    "a%2Fb": "--a_252Fb",
    "a_b/": "--a_5Fb_2F",
    "--x": "--x",  # as it was before there were escapes
    "--a_2Fb": "----a_5F2Fb",
    "//": "--_2F_2F",
    ".": "--_2E",
}


@cases("vhost", NAMES)
def test_a_virtual_host_has_a_namespace(vhost: str) -> None:
    check_vhost_name(vhost)
    assert namespace_of(vhost) == NAMES[vhost]
    check_namespace(NAMES[vhost])
    assert vhost_of(NAMES[vhost]) == vhost


@cases(
    "namespace", ["default", "--", "--x", "---", "--_", "--_2", "--_2f", "--_C3", "--_61", "--_2F", "----_2D", "-_2F"]
)
def test_every_namespace_is_a_virtual_host(namespace: str) -> None:
    assert namespace_of(vhost_of(namespace)) == namespace


texts = st.text(st.sampled_from("ab_-/.%2F5") | st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(texts.filter(lambda text: text != "default"))
def test_no_two_share_a_namespace(vhost: str) -> None:
    assert vhost_of(namespace_of(vhost)) == vhost


@cases("vhost", ["", "x" * 65, "a/" * 20, "\ud800"])
def test_what_is_not_a_name(vhost: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        check_vhost_name(vhost)
    assert refused.value.code is Code.BAD_REQUEST
