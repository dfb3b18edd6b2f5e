"""How ``mcpx discover`` shows what it found."""

from __future__ import annotations

from mcpx.cli.discover import MAX_LINES, render
from mcpx.cli.examine import Finding
from mcpx.spec.revisions import LATEST_LEGACY

LONG = "Call look before anything else. " * 100


def finding(instructions: str, **server_info: str) -> Finding:
    return Finding(
        server="s",
        era="legacy",
        revision=LATEST_LEGACY,
        revisions=(LATEST_LEGACY,),
        server_info=server_info,
        instructions=instructions,
    )


def test_what_is_long_is_wrapped_behind_its_label() -> None:
    lines = render(finding("one two three four"), width=28).splitlines()
    assert lines[-2:] == ["instructions: one two three", "              four"]


def test_what_is_too_long_is_cut_and_says_so() -> None:
    lines = render(finding(LONG), width=60).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("instructions: "))
    assert len(lines) - at == MAX_LINES + 1
    assert lines[-1] == f"              ... ({len(LONG.strip())} characters; --json shows all)"
    assert max(map(len, lines)) <= 60


def test_what_just_fits_is_whole() -> None:
    words = "x" * 40 + " "
    lines = render(finding(words * MAX_LINES), width=60).splitlines()
    assert lines[-1] == " " * 14 + words.strip()


def test_an_address_is_not_broken() -> None:
    address = "https://example.com/" + "a-" * 60
    assert address in render(finding(f"See {address} first."), width=60)


def test_what_a_terminal_would_act_on_is_spelled_out() -> None:
    shown = render(finding("a\x1b[2J\x07b\u2028c", name="o\x1bld"), width=60)
    assert "server:       o\\x1bld" in shown
    assert "a\\x1b[2J\\x07b" in shown
    assert all(line.isprintable() for line in shown.splitlines())
