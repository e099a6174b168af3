"""The rules of context attributes, and the table of refusals."""

from __future__ import annotations

from entrepot.domain.errors import Code, EntrepotError, StorageFullError
from entrepot.gateway.http.requests.problem_types import PROBLEMS, problem_of
from entrepot.protocols.cloudevents import media_type
from entrepot.protocols.cloudevents.errors import CloudEventError, UnsupportedFormatError
from entrepot.protocols.cloudevents.event import CloudEvent, check_attributes, is_attribute_name
from tests.support.cases import cases

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def is_valid(**attributes: str) -> bool:
    try:
        check_attributes({**REQUIRED, **attributes})
    except CloudEventError:
        return False
    return True


@cases(
    "time",
    [
        "2018-04-05T17:31:00Z",
        "2018-04-05t17:31:00z",
        "2018-04-05T17:31:00.123456789012+02:00",
        "2020-02-29T00:00:00Z",
        "2000-02-29T00:00:00Z",
        "1990-12-31T23:59:60Z",
        "0000-02-29T00:00:00Z",
        "2018-12-31T00:00:00-23:59",
    ],
)
def test_rfc_3339_times(time: str) -> None:
    assert is_valid(time=time)


@cases(
    "time",
    [
        "",
        "2018-04-05",
        "2018-04-05 17:31:00Z",
        "2018-04-05T17:31:00",
        "2018-04-05T17:31Z",
        "2018-04-05T24:00:00Z",
        "2018-13-05T17:31:00Z",
        "2018-04-31T17:31:00Z",
        "2019-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2018-04-05T17:31:00.Z",
        "2018-04-05T17:31:61Z",
        "2018-04-05T17:31:00+24:00",
        "2018-04-05T17:31:00+0200",
        "2018-04-05T17:31:00Z ",
        "２018-04-05T17:31:00Z",
        "18-04-05T17:31:00Z",
    ],
)
def test_what_is_no_rfc_3339_time(time: str) -> None:
    assert not is_valid(time=time)


def test_dataschema_is_an_absolute_uri() -> None:
    for uri in ("https://example.com/schema?v=1#x", "urn:example:a", "tag:a,2026:x", "https://[::1]/%7Ea"):
        assert is_valid(dataschema=uri)
    for text in ("", "schema", "/schema", "//host/schema", "https:", "1a:b", "http://a b", "http://a/%zz", "http://é"):
        assert not is_valid(dataschema=text)


def test_attribute_names() -> None:
    for name in ("a", "0", "partitionkey", "x" * 21):
        assert is_attribute_name(name)
    for name in ("", "A", "my_ext", "my-ext", "é", "data", "a\n", "a b"):
        assert not is_attribute_name(name)


def test_strings() -> None:
    assert is_valid(ext="", other="é😀 plain", id="😀")
    for text in ("\x00", "\x1f", "\x7f", "\x9f", "\ud800", "\udfff", "\ufdd0", "\uffff", "\U0001fffe", "\U0010ffff"):
        assert not is_valid(ext=f"a{text}")
        assert not is_valid(id=text)


def test_shorthands() -> None:
    event = CloudEvent({**REQUIRED, "subject": "x", "datacontenttype": "a/b"})
    assert (event.id, event.source, event.type, event.subject, event.datacontenttype) == ("1", "/s", "t", "x", "a/b")
    assert CloudEvent(REQUIRED).subject is None


def test_media_types() -> None:
    for text in ("a/b", "text/plain; charset=utf-8", 'multipart/mixed; boundary="a b"', "application/vnd.x+json;"):
        assert media_type.is_media_type(text)
    for text in ("", "text", "/", "a/", "a/b c", "a/b;é", "a /b", "a/b;\n"):
        assert not media_type.is_media_type(text)
    assert media_type.is_json("Application/JSON; charset=utf-8")
    assert media_type.is_json("a/b+JSON")
    assert not media_type.is_json("application/jsonl")
    assert not media_type.is_json("application/x; format=a/json")


def test_every_code_has_a_problem() -> None:
    assert set(PROBLEMS) == set(Code)
    assert len({problem.slug for problem in PROBLEMS.values()}) == len(PROBLEMS)
    for problem in PROBLEMS.values():
        assert 400 <= problem.status <= 599
        assert problem.slug == problem.slug.lower().replace("_", "-")
        assert problem.title


@cases(
    "error, status",
    [
        (EntrepotError(Code.TOPIC_NOT_FOUND, "x"), 404),
        (EntrepotError(Code.ILLEGAL_TOPIC, "x"), 400),
        (EntrepotError(Code.FORBIDDEN, "x"), 403),
        (EntrepotError(Code.UNAUTHORIZED, "x"), 401),
        (EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "x"), 413),
        (EntrepotError(Code.MESSAGE_PROPERTIES_TOO_LARGE, "x"), 413),
        (EntrepotError(Code.TOO_MANY_REQUESTS, "x"), 429),
        (EntrepotError(Code.UNAVAILABLE, "x"), 503),
        (EntrepotError(Code.REQUEST_TIMEOUT, "x"), 504),
        (StorageFullError(), 507),
        (CloudEventError("x"), 400),
        (UnsupportedFormatError("x"), 415),
    ],
)
def test_statuses(error: EntrepotError | CloudEventError, status: int) -> None:
    assert problem_of(error).status == status
