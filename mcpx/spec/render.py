"""The table of what each revision has, for people and as plain data."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any

from mcpx.spec.capabilities import RELAYS
from mcpx.spec.codes import CODES
from mcpx.spec.methods import METHODS
from mcpx.spec.revisions import REVISIONS, era_of
from mcpx.spec.tables import KINDS, RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpx.spec.fields import Field
    from mcpx.spec.methods import Method
    from mcpx.spec.span import Span

_WIDTH = 100
_CELL = len(REVISIONS[0])
_LABEL = _WIDTH - len(REVISIONS) * (_CELL + 1)
_NONE = "-"
_DECLARED = {"host": "ClientCapabilities", "server": "ServerCapabilities"}
_WHEN = {"always": "relayed", "passthrough": "relayed in pass-through", "never": "not relayed"}


def render_table() -> str:
    """The table, in lines of at most 100 columns: methods, notifications, capabilities, codes, content, fields."""
    return "\n".join(line.rstrip() for line in _lines()) + "\n"


def as_data() -> dict[str, Any]:
    """The same as plain data: for each thing the first and last revision that has it (``null``: it is still there)."""
    return {
        "revisions": [{"revision": revision, "era": era_of(revision)} for revision in REVISIONS],
        "methods": [
            {"name": method.name, "kind": method.kind, "params": method.params, "result": method.result}
            | {key: _span(getattr(method, key)) for key in _METHOD_SPANS}
            for method in METHODS.values()
        ],
        "capabilities": {
            side: {path: _span(field.span) for path, field in _paths(name)} for side, name in _DECLARED.items()
        },
        "relayed": [{"capability": relay.name, "when": relay.when, "asks": relay.asks} for relay in RELAYS],
        "codes": [{"code": code.code, "name": code.name} | _span_of(code.span) for code in CODES],
        "contentKinds": [{"kind": kind} | _span_of(span) for kind, span in KINDS.items()],
        "types": {
            row.name: [
                {"name": field.name, "type": field.of, "shape": field.shape, "requiredIn": sorted(field.needed)}
                | _span_of(field.span)
                for field in row.fields.values()
            ]
            for row in RECORDS.values()
        },
    }


_METHOD_SPANS = ("host", "upstream", "question", "interrupts", "cached")


def _span(span: Span | None) -> dict[str, str | None] | None:
    return None if span is None else _span_of(span)


def _span_of(span: Span) -> dict[str, str | None]:
    return {"since": span.since, "until": span.until}


def _lines() -> Iterator[str]:
    yield _row("", lambda revision: revision)
    yield _row("Era", era_of)
    for title, kind in (
        ("Requests (who may send them; ask: inside a result)", "request"),
        ("Notifications (who may send them)", "notification"),
    ):
        yield from _heading(title)
        for method in METHODS.values():
            if method.kind == kind:
                yield _row(method.name, lambda revision, method=method: _sender(method, revision))
    for title, key in (("Results that may ask for input", "interrupts"), ("Results that may be cached", "cached")):
        yield from _heading(title)
        for method in METHODS.values():
            span: Span | None = getattr(method, key)
            if span is not None:
                yield _row(method.name, _presence(span))
    for side, name in _DECLARED.items():
        yield from _heading(f"Capabilities of a {side}")
        for path, field in _paths(name):
            yield _row(path, _presence(field.span))
    yield from _heading("What upstreams are told of a host's capabilities")
    for relay in RELAYS:
        yield f"{relay.name:<{_LABEL}}{_WHEN[relay.when]}"
    yield from _heading("Error codes")
    for code in CODES:
        yield _row(f"{code.code} {code.name}", _presence(code.span))
    yield from _heading("Kinds of content")
    for kind, span in KINDS.items():
        yield _row(kind, _presence(span))
    yield from _heading("Fields by type (req: required)")
    for name in RECORDS:
        yield from _type(name)


def _heading(title: str) -> list[str]:
    return ["", title, "=" * len(title)]


def _row(label: str, cell: Callable[[str], str]) -> str:
    return f"{label:<{_LABEL}}" + " ".join(f"{cell(revision):<{_CELL}}" for revision in REVISIONS)


def _presence(span: Span) -> Callable[[str], str]:
    return lambda revision: "yes" if span.covers(revision) else _NONE


def _sender(method: Method, revision: str) -> str:
    senders = {"host": method.host, "server": method.upstream, "ask": method.question}
    said = [who for who, span in senders.items() if span is not None and span.covers(revision)]
    return "both" if len(said) > 1 else said[0] if said else _NONE


def _paths(name: str, prefix: str = "") -> Iterator[tuple[str, Field]]:
    """The capabilities under a type, each by its path."""
    for field in RECORDS[name].fields.values():
        yield prefix + field.name, field
        if field.of is not None:
            yield from _paths(field.of, f"{prefix}{field.name}.")


def _type(name: str) -> Iterator[str]:
    """A type: the fields that every revision has in a line, the others in rows."""
    fields = RECORDS[name].fields.values()
    always = [field for field in fields if len(field.span.revisions) == len(REVISIONS) and _steady(field)]
    yield ""
    yield name
    told = ", ".join(f"{field.name} (req)" if field.needed else field.name for field in always)
    yield from wrap(told, _WIDTH, initial_indent="  always: ", subsequent_indent="    ")
    for field in fields:
        if field not in always:
            yield _row(f"  {field.name}", lambda revision, field=field: _field(field, revision))


def _steady(field: Field) -> bool:
    return len(field.needed) in (0, len(REVISIONS))


def _field(field: Field, revision: str) -> str:
    return _NONE if not field.span.covers(revision) else "req" if revision in field.needed else "yes"
