"""Matching a URI against an upstream's template: liberal, linear, bounded."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.gateway.templates import MAX_TEMPLATE, MAX_URI, match_template

STEADY = settings(deadline=None)  # a shared machine may be slow at any moment


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///a", "file:///a"),
        ("demo://greeting/{name}", "demo://greeting/Ada"),
        ("demo://greeting/{name}", "demo://greeting/a%20b?c"),
        ("demo://{a}/{b}", "demo://x/y"),
        ("demo://{a}-{b}.txt", "demo://x-y-z.txt"),
        ("demo://{a,b}", "demo://x,y"),
        ("demo://{a:3}/x", "demo://abc/x"),
        ("file://{+path}", "file:///home/me/a.txt"),
        ("file:///{+path}", "file:///home/me/a.txt"),
        ("file:///{path*}", "file:///a,b"),
        ("doc://x{#part}", "doc://x#part"),
        ("doc://x{#part}", "doc://x"),
        ("doc://x{.ext}", "doc://x.tar.gz"),
        ("doc://x{.ext}", "doc://x"),
        ("doc://x{/a,b}", "doc://x/1/2"),
        ("doc://x{/path*}", "doc://x/1/2/3"),
        ("doc://x{/path*}", "doc://x"),
        ("doc://x{;a,b}", "doc://x;a=1;b=2"),
        ("doc://x{?q,page}", "doc://x?q=a/b&page=2"),
        ("doc://x{?q,page}", "doc://x"),
        ("doc://x?fixed=1{&q}", "doc://x?fixed=1&q=2"),
        ("doc://x{/a}{.ext}{?q}{#f}", "doc://x"),
        ("doc://x{/a}{.ext}{?q}{#f}", "doc://x/a.b?c#d"),
        ("doc://{a}{b}{c}", "doc://xyz"),
        ("doc://é/{x}", "doc://é/ü"),
        ("doc://{a}/mid/{+b}/end", "doc://x/mid/mid/end/end"),
        ("{+all}", "anything at all"),
    ],
)
def test_an_expansion_matches(template: str, uri: str) -> None:
    assert match_template(template, uri)


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("file:///a", "file:///b"),
        ("file:///a", "file:///a/"),
        ("demo://greeting/{name}", "demo://greeting/"),
        ("demo://greeting/{name}", "demo://greeting/a/b"),
        ("demo://greeting/{name}", "demo://farewell/a"),
        ("demo://{a}/{b}", "demo://x"),
        ("demo://{a}-{b}.txt", "demo://x.txt"),
        ("aba{x}aba", "aba"),  # head and tail may not share their bytes
        ("ab{+x}ba", "aba"),
        ("file://{+path}", "file://"),
        ("doc://x{.ext}", "doc://x.a/b"),
        ("doc://x{?q}", "doc://x?q=1#f"),
        ("doc://x{?q}", "doc://xq=1"),
        ("doc://x{#f}", "doc://xf"),
        ("doc://{a}{b}{c}", "doc://xy"),
        ("{a}{.b}", "x../y"),  # two places next to each other, one of them at a stop
        ("", "x"),
    ],
)
def test_what_is_no_expansion_does_not_match(template: str, uri: str) -> None:
    assert not match_template(template, uri)


@pytest.mark.parametrize("template", ["x{", "x}", "x{a", "x{}", "x{a{b}}", "x{a b}", "x{=a}", "x{a,}", "x{a:}", "{*}"])
def test_a_malformed_template_matches_nothing(template: str) -> None:
    assert not match_template(template, template)
    assert not match_template(template, "xa")


def test_what_is_too_long_matches_nothing() -> None:
    assert match_template("{+a}", "a" * MAX_URI)
    assert not match_template("{+a}", "a" * (MAX_URI + 1))
    assert match_template("a" * (MAX_TEMPLATE - 4) + "{+a}", "a" * MAX_TEMPLATE)
    assert not match_template("a" * (MAX_TEMPLATE - 3) + "{+a}", "a" * MAX_TEMPLATE)


PLACES = st.lists(st.sampled_from(["a", "b", "/", "ab", "{x}", "{+x}", "{.x}", "{?x}", "{/x}"]), min_size=1, max_size=6)


def naive(parts: list[str], text: str) -> bool:
    """The same question asked the slow way, by trying everything."""
    if not parts:
        return text == ""
    first, *rest = parts
    if not first.startswith("{"):
        return text.startswith(first) and naive(rest, text[len(first) :])
    operator = first[1] if first[1] in "+./?" else ""
    lead, stop = {"": ("", "/"), "+": ("", ""), ".": (".", "/"), "/": ("/", ""), "?": ("?", "#")}[operator]
    if lead and naive(rest, text):
        return True
    if not text.startswith(lead):
        return False
    least = len(lead) if lead else 1
    for end in range(least, len(text) + 1):
        if any(letter in stop for letter in text[len(lead) : end]):
            return False
        if naive(rest, text[end:]):
            return True
    return False


@settings(STEADY, max_examples=1000)
@given(PLACES, st.text(alphabet="ab/.?", max_size=10))
def test_it_answers_as_trying_everything_does(parts: list[str], text: str) -> None:
    assert match_template("".join(parts), text) == naive(parts, text)


@pytest.mark.parametrize(
    "template",
    [
        "{+a}" * (MAX_TEMPLATE // 4),
        "{a}x" * (MAX_TEMPLATE // 4),
        "x{+a}" * (MAX_TEMPLATE // 5),
        "x" * (MAX_TEMPLATE - 4) + "{+a}",
        "{" * MAX_TEMPLATE,
        "{?a}" * (MAX_TEMPLATE // 4),
    ],
    ids=lambda template: template[:8],
)
def test_a_hostile_template_costs_little(template: str) -> None:
    started = time.process_time()
    match_template(template, "x" * (MAX_URI - 1) + "/")

    assert time.process_time() - started < 0.5  # backtracking would take longer than the universe has


def test_a_template_of_megabytes_is_not_even_looked_at() -> None:
    started = time.process_time()
    assert not match_template("{a" * 5_000_000, "{a")

    assert time.process_time() - started < 0.1
