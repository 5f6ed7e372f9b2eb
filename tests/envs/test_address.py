"""Addresses as a browser writes them: cases of the WHATWG URL standard, and what Chromium did with each of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envos.envs.address import address, form_query


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("/", "/"),
        ("/new/clinic?referral=1&place=2", "/new/clinic?referral=1&place=2"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/../x", "/x"),
        ("/a/..", "/"),
        ("/a/.", "/a/"),
        ("/a/%2e%2E/b", "/b"),
        ("/a/.%2e", "/"),
        ("/a//../b", "/a/b"),
        ("/a/.../b", "/a/.../b"),
        ("/..a", "/..a"),
        ("/a\\..\\b", "/b"),
        ("/a?b=../c\\d", "/a?b=../c\\d"),
        ("/a b?c d", "/a%20b?c%20d"),
        ("/x#y?z", "/x"),
        ("/é?ü=😀", "/%C3%A9?%C3%BC=%F0%9F%98%80"),
        ("/%41%zz%", "/%41%zz%"),
        ("/\"<>^`{|}'", "/%22%3C%3E%5E%60%7B%7C%7D'"),
        ("/?\"<>^`{|}'", "/?%22%3C%3E^`{|}%27"),
        ("/~*!$&()+,;=:@[]", "/~*!$&()+,;=:@[]"),
        ("/a?", "/a?"),
        ("/a??b", "/a??b"),
        ("/\x7f?\x7f", "/%7F?%7F"),
    ],
)
def test_an_address_is_written_as_a_browser_writes_it(given: str, asked: str) -> None:
    assert address(given) == asked


@given(st.text().map(lambda text: f"/{text}"))
def test_an_address_is_plain_ascii_and_stays_as_it_is(text: str) -> None:
    asked = address(text)
    assert asked.startswith("/")
    assert asked.isascii()
    assert asked.isprintable()
    assert " " not in asked
    assert address(asked) == asked


def test_form_fields_are_sent_as_a_browser_sends_them() -> None:
    """The standard keeps `*-._`, letters and digits, makes a blank a plus, and encodes the rest, "~" too."""
    assert form_query({"a b": "x y", "c": "~*-._", "d": "", "é": "&=+%"}) == "a+b=x+y&c=%7E*-._&d=&%C3%A9=%26%3D%2B%25"
