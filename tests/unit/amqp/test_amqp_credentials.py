"""Responses of PLAIN and AMQPLAIN."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.amqp.credentials import Credentials, credentials_of
from entrepot.protocols.amqp.field_table import encode_table
from tests.support.cases import cases

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@given(user=texts, password=texts, identity=texts)
def test_both_mechanisms(user: str, password: str, identity: str) -> None:
    wanted = Credentials(user, password)
    assert credentials_of("PLAIN", f"{identity}\0{user}\0{password}".encode()) == wanted
    assert credentials_of("AMQPLAIN", encode_table({"LOGIN": user, "PASSWORD": password})[4:]) == wanted
    assert repr(wanted) == f"Credentials({user!r})"


@cases(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"user\0password"),
        ("PLAIN", b"\0user\0pass\0word"),
        ("PLAIN", b"\0us\xffer\0password"),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", encode_table({"LOGIN": "user"})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": "user", "PASSWORD": 5})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": "user", "PASSWORD": "x"})[4:-1]),
        ("AMQPLAIN", encode_table({"LOGIN": "user", "PASSWORD": "x"})),
        ("EXTERNAL", b""),
        ("plain", b"\0user\0password"),
    ],
)
def test_what_holds_none(mechanism: str, response: bytes) -> None:
    assert credentials_of(mechanism, response) is None


@given(response=st.binary(max_size=60), mechanism=st.sampled_from(["PLAIN", "AMQPLAIN"]))
def test_no_response_raises(mechanism: str, response: bytes) -> None:
    assert credentials_of(mechanism, response) is None or isinstance(credentials_of(mechanism, response), Credentials)
