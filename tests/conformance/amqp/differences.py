"""Where our server answers otherwise than RabbitMQ, with the reason."""

from __future__ import annotations

from typing import Final

from tests.conformance.amqp.wire_client import Said

Answers = dict[str, Said]

_TOLD: Final[Answers] = {
    "unknown mechanism": (
        "connection",
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism MAGIC",
        0,
        0,
    ),
    "tune: a larger frame_max": (
        530,
        "NOT_ALLOWED - negotiated frame_max = 10000000 is greater than the maximum allowed value (131072)",
    ),
    "tune: frame_max below 4096": (
        530,
        "NOT_ALLOWED - negotiated frame_max = 4095 is lower than the minimum allowed value (4096)",
    ),
    "unknown class": ("connection", 503, "COMMAND_INVALID - unimplemented method", 99, 10),
    "unknown method": ("connection", 503, "COMMAND_INVALID - unimplemented method", 50, 99),
}

_LENIENT: Final[Answers] = {
    "tune: frame_max 0": ("Connection.OpenOk",),
    "tune: a larger channel_max": ("Connection.OpenOk",),
    "tune: channel_max 0": ("Connection.OpenOk",),
    "queue with an unknown leader locator": ("ok",),
}

_WORDS: Final[Answers] = {
    "wrong password, the client can be told": (
        "connection",
        403,
        "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN",
        0,
        0,
    ),
    "a channel's method on channel 0": (
        "connection",
        504,
        "CHANNEL_ERROR - unexpected method queue.declare on channel 0",
        50,
        10,
    ),
    "a method that is cut short": (
        "connection",
        501,
        "FRAME_ERROR - cannot decode queue.declare: it ends within a number",
        50,
        10,
    ),
    "a frame with a wrong end": ("connection", 501, "FRAME_ERROR - the frame end octet is 0x00", 0, 0),
    "a frame of an unknown type": ("connection", 501, "FRAME_ERROR - unknown frame type 7", 0, 0),
    "a frame above frame_max": (
        "connection",
        501,
        "FRAME_ERROR - a frame of 200008 bytes, frame_max is 131072",
        0,
        0,
    ),
    "another header while the connection is open": (
        "connection",
        501,
        "FRAME_ERROR - unknown frame type 65",
        0,
        0,
    ),
}

_TERMS: Final[Answers] = {
    **{
        f"{verb} '' with no queue declared": ("channel", 404, "NOT_FOUND - no queue '' in vhost '/'", *method)
        for verb, method in (("bind", (50, 20)), ("consume", (60, 20)), ("get", (60, 70)))
    },
    "consume with a priority of text": (
        "channel",
        406,
        "PRECONDITION_FAILED - invalid arg 'x-priority': 'high'",
        60,
        20,
    ),
    "expiration that is no number": ("channel", 406, "PRECONDITION_FAILED - invalid expiration 'soon'", 60, 40),
    "a negative expiration": ("channel", 406, "PRECONDITION_FAILED - invalid expiration '-1'", 60, 40),
    "CC that is no list": ("channel", 406, "PRECONDITION_FAILED - invalid type 'str' for header 'CC'", 60, 40),
}

_CONTENT: Final[Answers] = {
    "a method inside a publish": (
        "connection",
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got a method frame instead",
        0,
        0,
    ),
    "a header of another class": (
        "connection",
        505,
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 50 instead",
        0,
        0,
    ),
    "a body longer than announced": (
        "connection",
        501,
        "FRAME_ERROR - more content than its header announced",
        60,
        40,
    ),
}

_NOT_HELD: Final[Answers] = {"exclusive consume of a single active consumer queue": ("ok",)}

_NUMBERS: Final[Answers] = {
    f"queue again: an argument {which}": (
        "channel",
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': {text}",
        50,
        10,
    )
    for which, text in (
        ("less", "received none but current is the value '1000' of type 'signedint'"),
        ("more", "received the value '1000' of type 'signedint' but current is none"),
    )
} | {
    f"queue with {which}": ("channel", 406, f"PRECONDITION_FAILED - {text}", 50, 10)
    for which, text in (
        ("overflow of a number", "invalid arg 'x-overflow' for queue 'q' in vhost '/': {unacceptable_type,signedint}"),
        (
            "a dead letter exchange of a number",
            "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'",
        ),
        ("a type of a number", "invalid arg 'x-queue-type' for queue 'q' in vhost '/': {unacceptable_type,signedint}"),
    )
}

_ONE_VERSION: Final[Answers] = {"header of AMQP 0-9": ("414d515000000901", "dropped")}

_EARLIER: Final[Answers] = {
    "a body that is announced too big": (
        "channel",
        406,
        "PRECONDITION_FAILED - message size 1099511627776 is larger than configured max size 134217728",
        60,
        40,
    ),
}

_STREAMS: Final[Answers] = {
    f"stream: {what}": (scope, code, text, *method)
    for what, scope, code, text, method in (
        (
            "consume without qos",
            "channel",
            406,
            "PRECONDITION_FAILED - consumer prefetch count is not set for stream queue 'q' in vhost '/'",
            (60, 20),
        ),
        (
            "get",
            "connection",
            540,
            "NOT_IMPLEMENTED - basic.get not supported by stream queue 'q' in vhost '/'",
            (60, 70),
        ),
        (
            "purge",
            "connection",
            540,
            "NOT_IMPLEMENTED - purge is not supported by stream queue 'q' in vhost '/'",
            (50, 30),
        ),
        (
            "consume without acknowledgements",
            "connection",
            540,
            "NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queue 'q' in vhost '/'",
            (60, 20),
        ),
    )
}

_LATER_VERSIONS: Final[Answers] = {
    "exchange: unknown type": ("channel", 406, "PRECONDITION_FAILED - unknown exchange type 'magic'", 40, 10),
}

_PRIORITIES: Final[Answers] = {"queue with type quorum, with priority": ("ok",)}

_FAILS_INSIDE: Final[Answers] = {
    "queue with type stream, with a bad max-age": (
        "channel",
        406,
        "PRECONDITION_FAILED - invalid arg 'x-max-age' for queue 'q' in vhost '/': invalid_max_age",
        50,
        10,
    ),
    "stream: a bad offset": (
        "channel",
        406,
        "PRECONDITION_FAILED - invalid arg 'x-stream-offset': 'somewhere'",
        60,
        20,
    ),
}

REASONS: Final[tuple[tuple[str, Answers], ...]] = (
    ("RabbitMQ drops the socket without a word; ours says why.", _TOLD),
    ("RabbitMQ refuses what does no harm; ours takes its own limit.", _LENIENT),
    ("Same scope and code; the text is about RabbitMQ's log file, or an Erlang term.", _WORDS),
    ("Same scope, code and method; the text says less, or says it without an Erlang term.", _TERMS),
    ("The connection ends as well; what is told of the frame that ended it is less exact.", _CONTENT),
    ("Ours lets the consumer be exclusive; with one active consumer at a time the two hardly differ.", _NOT_HELD),
    ("Texts name an integer's type by its size, which ours does not keep.", _NUMBERS),
    ("RabbitMQ speaks 0-9 and 0-8 too, which no client of today does.", _ONE_VERSION),
    ("RabbitMQ measures a body when it has it, ours when it is announced.", _EARLIER),
    ("Same scope and code; RabbitMQ's sentences name the queue twice.", _STREAMS),
    ("RabbitMQ 3 ends the connection, 4 the channel.", _LATER_VERSIONS),
    ("Quorum queues have priorities since RabbitMQ 4.3.", _PRIORITIES),
    ("RabbitMQ fails inside, and ends the connection; ours says what is wrong.", _FAILS_INSIDE),
)

ENTREPOT: Final[Answers] = {case: answer for _, answers in REASONS for case, answer in answers.items()}
