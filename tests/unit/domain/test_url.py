"""Texts that are URLs to send to, and those that are none."""

from __future__ import annotations

from entrepot.domain.url import authority_of, fault_of_url, target_of
from tests.support.cases import cases


@cases(
    "text, word",
    [
        ("https://example.com", None),
        ("HTTP://example.com:65535/a%20b?c=d#e", None),
        ("http://[::1]:80/", None),
        ("http://me:pw@m\u00fcnchen.example/", None),
        ("", "a URL with https or http is wanted"),
        ("example.com", "a URL with https or http is wanted"),
        ("ftp://example.com", "a URL with https or http is wanted"),
        ("https://example.com/a b", "a URL has no blanks"),
        ("https://example.com ", "a URL has no blanks"),
        ("https://exa\tmple.com", "a URL has no blanks"),
        ("https://example.com/\u00a0", "a URL has no blanks"),
        ("https://example.com/\r\n", "a URL has no blanks"),
        ("https://example.com/\x7f", "a URL has no control characters"),
        ("https://example.com/\u200b", "a URL has no control characters"),
        ("https://", "the URL names no host"),
        ("https:///path", "the URL names no host"),
        ("https://:443/", "the URL names no host"),
        ("https://user@/", "the URL names no host"),
        ("https://[::1/", "the brackets of its host do not match"),
        ("https://example.com:0/", "its port is not a number from 1 to 65535"),
        ("https://example.com:65536/", "its port is not a number from 1 to 65535"),
        ("https://example.com:http/", "its port is not a number from 1 to 65535"),
    ],
)
def test_what_is_wrong_with_a_url(text: str, word: str | None) -> None:
    assert fault_of_url(text, ("https", "http")) == word


@cases(
    "text, authority, target",
    [
        ("https://a.example", "a.example", "/"),
        ("https://a.example?x=/#y", "a.example", "/?x=/"),
        ("https://me:pw@a.example:8443/x%2Fy/../z?q=%40@&c=d?#f?g", "me:pw@a.example:8443", "/x%2Fy/../z?q=%40@&c=d?"),
        ("http://[::1]:80//?", "[::1]:80", "//?"),
        ("http://a/://b", "a", "/://b"),
        ("http://a/\u00fc%C3%BC", "a", "/%C3%BC%C3%BC"),
        ("http://a/%zz'\"<>`{|}^\\~", "a", "/%zz'\"<>`{|}^\\~"),
        ("http://a#b", "a", "/"),
    ],
)
def test_the_parts_of_a_url_are_as_given(text: str, authority: str, target: str) -> None:
    assert (authority_of(text), target_of(text)) == (authority, target)
