"""Refusals in AMQP's words."""

from __future__ import annotations

from entrepot.domain.errors import Code
from entrepot.protocols.amqp.errors import CHANNELS_CODES, REPLY_OF_CODE, AmqpError, amqp_error
from entrepot.protocols.amqp.reply_codes import CONNECTION_ERRORS, ReplyCode, reply_text


def test_every_refusal_has_a_reply_code() -> None:
    assert set(REPLY_OF_CODE) == set(Code)


def test_scopes_are_the_specifications() -> None:
    connections = {320, 402, 501, 502, 503, 504, 505, 506, 530, 540, 541}
    assert set(CONNECTION_ERRORS) == connections
    for code in ReplyCode:
        assert AmqpError(code, "x").is_connections is (code in connections)


def test_a_refusal_of_one_channels_message_leaves_the_others() -> None:
    for code in Code:
        error = amqp_error(code, "x", 60, 40)
        assert (error.class_id, error.method_id) == (60, 40)
        assert error.is_connections == (code not in CHANNELS_CODES and error.code in CONNECTION_ERRORS)
    assert not amqp_error(Code.STORAGE_FULL, "full").is_connections
    assert amqp_error(Code.UNAVAILABLE, "stopping").is_connections


def test_reply_texts() -> None:
    assert reply_text(404, "no queue 'q' in vhost '/'") == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert reply_text(299, "whatever") == "whatever"
    for text in ("é" * 300, "x" * 300, "\ud800" * 300):
        long = reply_text(ReplyCode.INTERNAL_ERROR, text)
        assert 252 <= len(long.encode()) <= 255
        assert long.startswith("INTERNAL_ERROR - ")
        assert long.endswith("...")
