"""Random requests one after the other, cut at random: each is run with its body, and answered, in its order."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.desync_corpus import HOST, OFFER, SMUGGLED, WEBSOCKET
from tests.support.http.machine import HttpMachine, Run


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, and the statuses that answer it."""

    sent: bytes
    run: Run
    statuses: list[int]


BODIES = st.one_of(st.just(b""), st.just(SMUGGLED), st.just(b"0\r\n\r\n" + SMUGGLED), st.binary(max_size=60))
TARGETS = (b"/first", b"/a?b=c", b"/topics/now:publish", b"/topics/later:publish", b"/mqtt")
FURTHER = (
    b"",
    OFFER,
    WEBSOCKET,
    b"Connection: Upgrade\r\n",
    b"Upgrade: h2c\r\n",
    b"Connection: keep-alive\r\n",
    b"X: y\r\n",
)


@st.composite
def requests(draw: st.DrawFn) -> Asked:
    method, target = draw(st.sampled_from((b"POST", b"PUT", b"GET"))), draw(st.sampled_from(TARGETS))
    body, is_chunked, expects = draw(BODIES), draw(st.booleans()), draw(st.booleans())
    headers = [HOST, draw(st.sampled_from(FURTHER)), b"Expect: 100-continue\r\n" if expects else b""]
    if is_chunked:
        headers.append(b"Transfer-Encoding: chunked\r\n")
        sent = draw(chunked(body))
    else:
        headers.append(b"Content-Length: %d\r\n" % len(body))
        sent = body
    if WEBSOCKET in headers and target == b"/mqtt" and method == b"GET" and not body and not is_chunked:
        headers.append(b"Expect: 100-continue\r\n")  # else it would become a WebSocket
        expects = True
    lines = b"".join(draw(st.permutations(headers)))
    asked = b"%b %b HTTP/1.1\r\n%b\r\n%b" % (method, target, lines, sent)
    return Asked(asked, (method, target, body), [100, 200] if expects else [200])


@st.composite
def chunked(draw: st.DrawFn, body: bytes) -> bytes:
    """The body in chunks of random sizes, with extensions and trailers."""
    places = sorted(draw(st.sets(st.integers(1, max(1, len(body) - 1)), max_size=3)) - {len(body)})
    parts = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)] if body else []
    extension, trailer = draw(st.sampled_from((b"", b";a=b"))), draw(st.sampled_from((b"", b"X-Sum: 1\r\n")))
    chunks = (b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


@given(st.lists(requests(), min_size=1, max_size=5), st.data(), st.booleans())
def test_requests_are_run_as_they_were_sent(asked: list[Asked], data: st.DataObject, in_turn: bool) -> None:
    sent = b"".join(each.sent for each in asked)
    places = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=8), label="cuts"))
    parts = [sent[a:b] for a, b in zip([0, *places], [*places, len(sent)], strict=True)]
    found = HttpMachine().outcome(parts, in_turn=in_turn)
    assert found.run == [each.run for each in asked]
    assert found.statuses == [status for each in asked for status in each.statuses]
    assert not found.is_closed and found.websocket is None
