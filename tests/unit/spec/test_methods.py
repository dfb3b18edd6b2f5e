"""Who may send what, in which revision."""

from __future__ import annotations

import pytest

from mcpx.spec.methods import METHODS, Sender, defined, removed
from mcpx.spec.revisions import (
    LEGACY,
    MODERN,
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
    era_of,
    is_legacy,
    is_modern,
)
from mcpx.spec.span import ALWAYS, Span


def test_a_span_has_both_its_ends() -> None:
    span = Span(V2025_03_26, V2025_06_18)
    assert [span.covers(revision) for revision in REVISIONS] == [False, True, True, False, False]
    assert [span.ended(revision) for revision in REVISIONS] == [False, False, False, True, True]
    assert span.revisions == (V2025_03_26, V2025_06_18)
    assert ALWAYS.revisions == REVISIONS
    assert not any(ALWAYS.ended(revision) for revision in REVISIONS)
    with pytest.raises(KeyError):
        span.covers("2025-01-01")


def test_eras_part_the_revisions() -> None:
    for revision in REVISIONS:
        assert is_modern(revision) is not is_legacy(revision)
        assert era_of(revision) == ("modern" if revision in MODERN else "legacy")
    assert {*LEGACY, *MODERN} == set(REVISIONS)


@pytest.mark.parametrize(
    ("name", "sender", "revisions"),
    [
        ("initialize", "host", LEGACY),
        ("initialize", "upstream", ()),
        ("ping", "host", LEGACY),
        ("ping", "upstream", LEGACY),
        ("server/discover", "host", MODERN),
        ("tools/call", "host", REVISIONS),
        ("tools/call", "upstream", ()),
        ("elicitation/create", "upstream", (V2025_06_18, V2025_11_25)),
        ("sampling/createMessage", "upstream", LEGACY),
        ("notifications/progress", "host", LEGACY),
        ("notifications/progress", "upstream", REVISIONS),
        ("notifications/cancelled", "host", REVISIONS),
        ("notifications/roots/list_changed", "host", LEGACY),
        ("notifications/initialized", "host", LEGACY),
        ("tasks/get", "host", (V2025_11_25,)),
        ("vendor/thing", "host", ()),
    ],
)
def test_defined(name: str, sender: Sender, revisions: tuple[str, ...]) -> None:
    assert {revision for revision in REVISIONS if defined(name, revision, sender)} == set(revisions)


def test_what_was_removed_was_there_before() -> None:
    gone = {name for name in METHODS if removed(name, V2026_07_28)}
    assert gone == {
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "sampling/createMessage",
        "roots/list",
        "elicitation/create",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "tasks/list",
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/tasks/status",
        "notifications/elicitation/complete",
    }
    assert not any(removed(name, revision) for name in METHODS for revision in LEGACY)


def test_removed_from_one_side_alone() -> None:
    assert removed("notifications/progress", V2026_07_28, "host")
    assert not removed("notifications/progress", V2026_07_28, "upstream")
    assert not removed("notifications/progress", V2026_07_28)
    assert not removed("server/discover", V2024_11_05)
    assert not removed("tools/call", V2026_07_28, "upstream")
    assert not removed("vendor/thing", V2026_07_28)


def test_the_two_sides_of_a_row() -> None:
    senders = {name: method.sender for name, method in METHODS.items()}
    assert senders["ping"] == senders["notifications/cancelled"] == senders["notifications/progress"] == "both"
    assert senders["tools/call"] == "host"
    assert senders["notifications/message"] == "upstream"
    assert (METHODS["notifications/progress"].since, METHODS["notifications/progress"].until) == (V2024_11_05, None)
    assert (METHODS["elicitation/create"].since, METHODS["elicitation/create"].until) == (V2025_06_18, V2025_11_25)
    assert (METHODS["server/discover"].since, METHODS["server/discover"].until) == (V2026_07_28, None)
