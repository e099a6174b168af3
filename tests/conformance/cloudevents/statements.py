"""The normative statements of CloudEvents 1.0.2 that are ours to keep: the core, the HTTP protocol binding, the JSON
event format and HTTP 1.1 Web Hooks, in our words.  The number is the section, and a count within it."""

from __future__ import annotations

from typing import Final

from tests.conformance.mqtt.statement import BOTH, CLIENT, RECEIVER, SENDER, Statement

_S = Statement
_DELIVERY: Final = "tests/e2e/webhooks/test_webhook_delivery.py::"
_API: Final = "tests/e2e/webhooks/test_subscriptions_api.py::"
_CLIENTS: Final = "tests/e2e/webhooks/test_cloudevents_clients.py::"
_STREAMS: Final = "tests/e2e/http/test_http_event_streams.py::"
_PULL: Final = "tests/e2e/http/test_http_publish_and_pull.py::"
_SECURITY: Final = "tests/e2e/http/test_http_access_grid.py::"

STATEMENTS: Final = (
    # CloudEvents core
    _S("CORE 2-1", BOTH, "An attribute's name is made of a-z and 0-9, and has one character at least"),
    _S("CORE 2-2", BOTH, "No attribute is called data"),
    _S("CORE 2.1-1", BOTH, "Strings have no control characters, surrogates or noncharacters"),
    _S("CORE 2.1-2", BOTH, "Booleans, Integers and timestamps have one canonical string"),
    _S("CORE 3.1-1", RECEIVER, "id, source, specversion and type are there, and are not empty"),
    _S("CORE 3.1.1-1", RECEIVER, "specversion is 1.0"),
    _S("CORE 3.1.2-1", RECEIVER, "datacontenttype is a media type"),
    _S("CORE 3.1.2-2", RECEIVER, "dataschema is an absolute URI"),
    _S("CORE 3.1.2-3", RECEIVER, "subject is not empty where it is there"),
    _S("CORE 3.1.2-4", RECEIVER, "time is a timestamp of RFC 3339"),
    _S("CORE 3.2-1", BOTH, "Extensions are carried like other attributes, and forwarded though they are not known"),
    _S("CORE 4-1", RECEIVER, "Events of 64 KiB are taken and forwarded"),
    # HTTP protocol binding
    _S("HTTP 3-1", RECEIVER, "The Content-Type alone tells the mode; its case does not count"),
    _S("HTTP 3-2", RECEIVER, "An event format that is not known is refused"),
    _S("HTTP 3.1.1-1", BOTH, "Binary mode: datacontenttype is Content-Type, without a prefix"),
    _S("HTTP 3.1.2-1", BOTH, "Binary mode: data is the body as it is"),
    _S("HTTP 3.1.3.1-1", BOTH, "Binary mode: each attribute is a header ce-<name>, in capitals or not"),
    _S(
        "HTTP 3.1.3.2-1", RECEIVER, "Header values: a quoted string is undone first, then one round of percent-encoding"
    ),
    _S("HTTP 3.1.3.2-2", RECEIVER, "Header values: lower-case hex digits and needless encoding are taken"),
    _S("HTTP 3.1.3.2-3", RECEIVER, "Header values: percent sequences that are not UTF-8 are refused"),
    _S(
        "HTTP 3.1.3.2-4",
        SENDER,
        "Header values: space, quote, percent and what is not printable ASCII are percent-encoded as UTF-8",
        (_DELIVERY + "test_binary_mode", _CLIENTS + "test_python_reads_what_webhooks_send"),
    ),
    _S("HTTP 3.2.1-1", BOTH, "Structured mode: the Content-Type is the event format's"),
    _S("HTTP 3.2.2-1", RECEIVER, "Structured mode: attributes are those of the body, whatever headers say besides"),
    _S(
        "HTTP 3.2.3-1",
        SENDER,
        "Structured mode: the JSON format can be had",
        (_DELIVERY + "test_structured_mode_and_put",),
    ),
    _S("HTTP 3.3-1", BOTH, "Batched mode: a body of several events, or of none"),
    _S("HTTP 3.3-2", SENDER, "Batched mode is sent only to who asked for it", (_DELIVERY + "test_batched_mode",)),
    # JSON event format
    _S("JSON 2.2-1", BOTH, "Booleans and Integers are JSON's; every other attribute is a string"),
    _S("JSON 2.2-2", RECEIVER, "null is as good as an attribute that is not there"),
    _S("JSON 2.2-3", RECEIVER, "Integers are of 32 bits with a sign"),
    _S("JSON 3.1-1", RECEIVER, "data and data_base64 are not both there"),
    _S("JSON 3.1.1-1", BOTH, "Data that is JSON is the value of data, as it stands"),
    _S("JSON 3.1.1-2", BOTH, "Data of a text type is a string in data"),
    _S("JSON 3.1.1-3", BOTH, "Binary data is in data_base64"),
    _S("JSON 3.1.1-4", RECEIVER, "Without a datacontenttype data is application/json"),
    _S("JSON 3-1", RECEIVER, "Each member is there once"),
    _S("JSON 4-1", RECEIVER, "A batch is an array of events, each whole"),
    # HTTP 1.1 Web Hooks
    _S("WEBHOOK 2.1-1", SENDER, "Deliveries are POSTs with a Content-Type", (_DELIVERY + "test_binary_mode",)),
    _S(
        "WEBHOOK 2.1-2", SENDER, "Deliveries are made by HTTPS", (_API + "test_https_alone_unless_a_setting_says_more",)
    ),
    _S(
        "WEBHOOK 2.2-1",
        SENDER,
        "2xx is success; redirects are not followed",
        (_DELIVERY + "test_failures_are_tried_again_later_and_later",),
    ),
    _S(
        "WEBHOOK 2.2-2",
        SENDER,
        "After 410 nothing more is sent",
        (_DELIVERY + "test_who_is_gone_is_sent_nothing_until_the_subscription_is_changed",),
    ),
    _S("WEBHOOK 2.2-3", SENDER, "After 429 its Retry-After is obeyed", (_DELIVERY + "test_retry_after_is_obeyed",)),
    _S(
        "WEBHOOK 2.2-4",
        SENDER,
        "After 415 the same is not sent again",
        (_DELIVERY + "test_what_is_refused_is_a_dead_letter_at_once",),
    ),
    _S("WEBHOOK 2.2-5", RECEIVER, "What is taken is answered with 2xx when it is taken; a bad media type with 415"),
    _S(
        "WEBHOOK 3.1-1",
        BOTH,
        "A token is in the Authorization header",
        (_DELIVERY + "test_credentials", _SECURITY + "test_nobody_comes_in_without_credentials"),
    ),
    _S(
        "WEBHOOK 3.2-1",
        RECEIVER,
        "Or in the query, as access_token; not both",
        (_STREAMS + "test_rights_of_streams_and_tokens_in_the_query",),
    ),
    _S(
        "WEBHOOK 4.1-1",
        SENDER,
        "A receiver is asked by OPTIONS at the very URL, with the sender's origin",
        (_API + "test_a_receiver_is_asked_and_consents",),
    ),
    _S(
        "WEBHOOK 4.1.2-1",
        SENDER,
        "The rate asked for is requests each minute",
        (_API + "test_a_receiver_is_asked_and_consents",),
    ),
    _S("WEBHOOK 4.1.3-1", SENDER, "A callback consents later, by GET or POST", (_API + "test_consent_by_a_callback",)),
    _S(
        "WEBHOOK 4.2-1",
        SENDER,
        "Only WebHook-Allowed-Origin is consent, no status by itself",
        (_API + "test_without_consent_nothing_is_sent",),
    ),
    _S(
        "WEBHOOK 4.2.2-1",
        SENDER,
        "The rate that is allowed is kept to",
        (
            _API + "test_a_receiver_is_asked_and_consents",
            _API + "test_who_did_not_consent_is_sent_to_slowly_where_that_is_optional",
        ),
    ),
    _S(
        "WEBHOOK 4-1",
        SENDER,
        "To a receiver that knows no handshake little or nothing is sent",
        (_API + "test_who_did_not_consent_is_sent_to_slowly_where_that_is_optional",),
    ),
    _S("WEBHOOK 4.1.1-1", SENDER, "Every delivery tells the origin", (_DELIVERY + "test_binary_mode",)),
    _S("WEBHOOK 4.2-2", RECEIVER, "Our publish paths answer OPTIONS", (_API + "test_our_own_publish_path_consents",)),
    _S("HTTP 3.1.3.1-2", CLIENT, "A client sends no ce-datacontenttype"),
)
