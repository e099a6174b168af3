"""The normative statements of CloudEvents 1.0.2 that are ours to keep: the core, the HTTP protocol binding, the JSON
event format and HTTP 1.1 Web Hooks, in our words.  The number is the section, and a count within it.  The core has no
numbers: 1 is its overview and terms, 2 its names and types, 3 its attributes, 4 the size limits, 5 privacy."""

from __future__ import annotations

from typing import Final

from tests.conformance.mqtt.statement import BOTH, RECEIVER, SENDER, Statement

_S = Statement
_DELIVERY: Final = "tests/e2e/webhooks/test_webhook_delivery.py::"
_API: Final = "tests/e2e/webhooks/test_subscriptions_api.py::"
_CLIENTS: Final = "tests/e2e/webhooks/test_cloudevents_clients.py::"
_STREAMS: Final = "tests/e2e/http/test_http_event_streams.py::"
_PULL: Final = "tests/e2e/http/test_http_publish_and_pull.py::"
_RECEIVER: Final = "tests/conformance/cloudevents/test_receiver.py::"
_SENT: Final = "tests/conformance/cloudevents/test_deliveries.py::"
_TLS: Final = "tests/e2e/transports/test_tls.py::"
_SECURITY: Final = "tests/e2e/http/test_http_access_grid.py::"

STATEMENTS: Final = (
    # CloudEvents core
    _S("CORE 1-1", BOTH, "The JSON format is there in every implementation"),
    _S("CORE 1.1-1", BOTH, "Optional attributes are forwarded"),
    _S("CORE 1.1-2", RECEIVER, "The events of a batch are of one specversion"),
    _S("CORE 2-1", BOTH, "An attribute's name is made of a-z and 0-9, and has one character at least"),
    _S("CORE 2-2", BOTH, "No attribute is called data"),
    _S("CORE 2-3", BOTH, "An attribute is there once"),
    _S("CORE 2-4", RECEIVER, "Names should not be longer than 20 characters; longer ones are taken"),
    _S("CORE 2.1-1", BOTH, "Strings have no control characters, surrogates or noncharacters"),
    _S("CORE 2.1-2", BOTH, "Booleans, Integers and timestamps have one canonical string"),
    _S("CORE 2.1-3", BOTH, "Integers are of 32 bits with a sign"),
    _S("CORE 2.1-4", BOTH, "Values are of the types there are, and of no other"),
    _S("CORE 3.1-1", RECEIVER, "id, source, specversion and type are there, and are not empty"),
    _S("CORE 3.1-2", RECEIVER, "source is a URI-reference"),
    _S("CORE 3.1.1-1", RECEIVER, "specversion is 1.0"),
    _S(
        "CORE 3.1.1-2",
        SENDER,
        "A producer gives its events specversion 1.0, a type with a reversed domain, and an id of their own",
        (
            _API + "test_messages_of_another_door_come_as_events",
            "tests/unit/cloudevents/test_cloudevents_mapping.py::test_the_source_is_a_uri_reference",
        ),
    ),
    _S("CORE 3.1.2-1", RECEIVER, "datacontenttype is a media type"),
    _S("CORE 3.1.2-2", RECEIVER, "dataschema is an absolute URI, and not empty"),
    _S("CORE 3.1.2-3", RECEIVER, "subject is not empty where it is there"),
    _S("CORE 3.1.2-4", RECEIVER, "time is a timestamp of RFC 3339"),
    _S("CORE 3.1.2-5", BOTH, "In another format a datacontenttype that was implied is said"),
    _S("CORE 3.2-1", BOTH, "Extensions are carried like other attributes, and forwarded though they are not known"),
    _S("CORE 3.2-2", RECEIVER, "Other headers, which come beside the event, should be passed on as such"),
    _S("CORE 4-1", RECEIVER, "Events of 64 KiB are taken and forwarded"),
    _S(
        "CORE 5-1",
        BOTH,
        "Connections should be secured",
        (
            _TLS + "test_https_is_swapped_too_and_speaks_websocket",
            _API + "test_https_alone_unless_a_setting_says_more",
        ),
    ),
    # HTTP protocol binding
    _S("HTTP 1.3-1", BOTH, "Binary and structured mode are there"),
    _S(
        "HTTP 1.4-1",
        BOTH,
        "Structured mode is there in the JSON format",
        (_DELIVERY + "test_structured_mode_and_put",),
    ),
    _S("HTTP 3-1", RECEIVER, "The Content-Type alone tells the mode; its case does not count"),
    _S("HTTP 3-2", RECEIVER, "An event format that is not known is refused"),
    _S("HTTP 3-3", SENDER, "A consumer that asks for batches may say how large", (_DELIVERY + "test_batched_mode",)),
    _S("HTTP 3.1.1-1", BOTH, "Binary mode: datacontenttype is Content-Type, without a prefix"),
    _S("HTTP 3.1.1-2", BOTH, "Binary mode: there is no ce-datacontenttype"),
    _S("HTTP 3.1.2-1", BOTH, "Binary mode: data is the body as it is"),
    _S("HTTP 3.1.3-1", SENDER, "An attribute with a header of its own has the ce- header too"),
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
    _S(
        "HTTP 3.1.3.2-5",
        SENDER,
        "Header values: hex digits are upper-case, a pair of surrogates is one character, nothing is encoded twice",
    ),
    _S("HTTP 3.1.3.2-6", BOTH, "Header values: they are the canonical strings of their types"),
    _S("HTTP 3.2.1-1", BOTH, "Structured mode: the Content-Type is the event format's"),
    _S("HTTP 3.2.3-1", BOTH, "Structured mode: all attributes are in the body, whatever headers say besides"),
    _S("HTTP 3.3-1", BOTH, "Batched mode: a body of several events, or of none"),
    _S("HTTP 3.3-2", SENDER, "Batched mode is sent only to who asked for it", (_DELIVERY + "test_batched_mode",)),
    _S("HTTP 3.3-3", BOTH, "Batched mode: the events are of one specversion"),
    # JSON event format
    _S("JSON 2-1", BOTH, "Extensions are members beside the others"),
    _S("JSON 2.2-1", BOTH, "Booleans and Integers are JSON's; every other attribute is a string"),
    _S("JSON 2.2-2", RECEIVER, "null is as good as an attribute that is not there"),
    _S("JSON 2.2-3", RECEIVER, "Integers are of 32 bits with a sign"),
    _S("JSON 3-2", SENDER, "The media type is application/cloudevents+json"),
    _S("JSON 3-3", SENDER, "All attributes that there are are members, under their names"),
    _S("JSON 3.1-1", RECEIVER, "data and data_base64 are not both there"),
    _S("JSON 3.1.1-1", BOTH, "Data that is JSON is the value of data, as it stands"),
    _S("JSON 3.1.1-2", BOTH, "Data of a text type is a string in data"),
    _S("JSON 3.1.1-3", BOTH, "Binary data is in data_base64"),
    _S("JSON 3.1.1-4", RECEIVER, "Without a datacontenttype data is application/json"),
    _S("JSON 3.1.1-5", BOTH, "Data may be null, which is not the same as none"),
    _S("JSON 3.1.2-1", RECEIVER, "data_base64 is decoded"),
    _S("JSON 3.1.2-2", RECEIVER, "A string in data of a JSON type is a JSON string, and is not parsed once more"),
    _S("JSON 3.1.2-3", RECEIVER, "data of another type is text, in the charset that the type says; or it is refused"),
    _S("JSON 3.1.2-4", BOTH, "In another format the JSON type that was implied is said"),
    _S("JSON 3-1", RECEIVER, "Each member is there once"),
    _S("JSON 4-1", RECEIVER, "A batch is an array of events, each whole"),
    _S(
        "JSON 4-2",
        BOTH,
        "The media type of a batch is application/cloudevents-batch+json, and no other",
        (_DELIVERY + "test_batched_mode",),
    ),
    # HTTP 1.1 Web Hooks
    _S(
        "WEBHOOK 2.1-1",
        SENDER,
        "Deliveries are POSTs with a Content-Type",
        (_DELIVERY + "test_binary_mode", _DELIVERY + "test_structured_mode_and_put"),
    ),
    _S(
        "WEBHOOK 2.1-2", SENDER, "Deliveries are made by HTTPS", (_API + "test_https_alone_unless_a_setting_says_more",)
    ),
    _S("WEBHOOK 2.1-3", SENDER, "Deliveries have a payload of that type"),
    _S(
        "WEBHOOK 2.2-1",
        SENDER,
        "2xx is success; redirects are not followed",
        (_DELIVERY + "test_failures_are_tried_again_later_and_later", _SENT + "test_successes_are_not_sent_again"),
    ),
    _S(
        "WEBHOOK 2.2-2",
        SENDER,
        "After 410 nothing more is sent",
        (_DELIVERY + "test_who_is_gone_is_sent_nothing_until_the_subscription_is_changed",),
    ),
    _S(
        "WEBHOOK 2.2-3",
        SENDER,
        "After 429 its Retry-After is obeyed",
        (_DELIVERY + "test_retry_after_is_obeyed", _SENT + "test_retry_after_is_a_date_too"),
    ),
    _S(
        "WEBHOOK 2.2-4",
        SENDER,
        "After 415 the same is not sent again",
        (_DELIVERY + "test_what_is_refused_is_a_dead_letter_at_once",),
    ),
    _S("WEBHOOK 2.2-5", RECEIVER, "An event is answered with 2xx when it is taken; a bad media type with 415"),
    _S("WEBHOOK 2.2-6", RECEIVER, "Nothing is answered with a redirect", (_RECEIVER + "test_nothing_is_redirected",)),
    _S("WEBHOOK 2.2-7", RECEIVER, "An answer with a payload is 200 or 201, and has a Content-Type"),
    _S(
        "WEBHOOK 2.2-9",
        RECEIVER,
        "Where nobody receives any more the answer should be 410",
        (_RECEIVER + "test_a_topic_that_is_gone",),
    ),
    _S(
        "WEBHOOK 2.2-10",
        RECEIVER,
        "429 has a Retry-After",
        (_RECEIVER + "test_too_many_are_told_when_to_come_again",),
    ),
    _S("WEBHOOK 3-1", SENDER, "Deliveries have a token", (_DELIVERY + "test_credentials",)),
    _S("WEBHOOK 3-2", SENDER, "Challenges are not taken up", (_SENT + "test_a_challenge_is_not_answered",)),
    _S(
        "WEBHOOK 3.1-1",
        BOTH,
        "A token is in the Authorization header, as Bearer",
        (
            _DELIVERY + "test_credentials",
            _DELIVERY + "test_oauth_tokens_are_got_kept_and_got_anew",
            _RECEIVER + "test_a_token_in_the_header",
            _SECURITY + "test_nobody_comes_in_without_credentials",
        ),
    ),
    _S(
        "WEBHOOK 3.2-1",
        RECEIVER,
        "Or in the query, as access_token, among other parameters; not both",
        (_RECEIVER + "test_a_token_in_the_query", _STREAMS + "test_rights_of_streams_and_tokens_in_the_query"),
    ),
    _S(
        "WEBHOOK 3.2-2",
        RECEIVER,
        "A success is Cache-Control: private then",
        (
            _RECEIVER + "test_a_token_in_the_query",
            _RECEIVER + "test_a_stream_with_a_token_in_the_query_is_private",
        ),
    ),
    _S("WEBHOOK 3.2-3", SENDER, "We send no token in the query", (_DELIVERY + "test_credentials",)),
    _S(
        "WEBHOOK 4-2",
        RECEIVER,
        "A receiver should offer the handshake",
        (_API + "test_our_own_publish_path_consents",),
    ),
    _S(
        "WEBHOOK 4.1-1",
        SENDER,
        "A receiver is asked by OPTIONS at the very URL, with the sender's origin",
        (_API + "test_a_receiver_is_asked_and_consents",),
    ),
    _S(
        "WEBHOOK 4.1.4-1",
        SENDER,
        "The rate asked for is requests each minute",
        (_API + "test_a_receiver_is_asked_and_consents",),
    ),
    _S("WEBHOOK 4.1.3-1", SENDER, "A callback consents later, by GET or POST", (_API + "test_consent_by_a_callback",)),
    _S(
        "WEBHOOK 4.1.3-2",
        SENDER,
        "The callback's URL says which receiver it is for, and has a secret that nobody guesses",
        (_API + "test_consent_by_a_callback",),
    ),
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
            _SENT + "test_the_rate_allowed_is_kept_to",
            _SENT + "test_headers_of_consent_without_a_rate_allow_any",
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
    _S(
        "WEBHOOK 4.1.2-1",
        SENDER,
        "Every delivery tells the origin, as the handshake did",
        (_DELIVERY + "test_binary_mode",),
    ),
    _S("WEBHOOK 4.2-2", RECEIVER, "Our publish paths answer OPTIONS", (_API + "test_our_own_publish_path_consents",)),
    _S(
        "WEBHOOK 4.2-3",
        RECEIVER,
        "Consent has both headers; without consent there is neither",
        (
            _RECEIVER + "test_a_sender_that_asks_is_told_origin_and_rate",
            _RECEIVER + "test_who_is_no_sender_is_not_consented_to",
            _RECEIVER + "test_paths_that_take_no_events_do_not_consent",
        ),
    ),
    _S(
        "WEBHOOK 4.2-4",
        RECEIVER,
        "The answer to OPTIONS allows POST",
        (_RECEIVER + "test_a_sender_that_asks_is_told_origin_and_rate",),
    ),
    _S(
        "WEBHOOK 4.2.1-1",
        RECEIVER,
        "The origin allowed is the one that asked, or any",
        (_RECEIVER + "test_a_sender_that_asks_is_told_origin_and_rate",),
    ),
    _S(
        "WEBHOOK 4.2.2-2",
        RECEIVER,
        "The rate allowed is told, to who asked for one at least: a positive number, or any",
        (_RECEIVER + "test_a_sender_that_asks_is_told_origin_and_rate",),
    ),
)
