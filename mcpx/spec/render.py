"""The table of what each revision has, for people and as plain data."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

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


class Entry(NamedTuple):
    """One thing that the table is about: the names it can be asked for by, and its lines."""

    names: tuple[str, ...]
    lines: list[str]


def render_table(name: str | None = None) -> str:
    """The table, in lines of at most 100 columns: methods, notifications, capabilities, codes, content, fields.

    With a ``name`` it holds what is called that, whatever its letters' case. A capability stands for all under it.
    """
    return "\n".join(line.rstrip() for line in _lines(_asked(name))) + "\n"


def names() -> list[str]:
    """All names that ``render_table`` and ``as_data`` have something for, in the order of the table."""
    return list(dict.fromkeys(name for _, entries in _sections() for entry in entries for name in entry.names))


def as_data(name: str | None = None) -> dict[str, Any]:
    """The same as plain data: for each thing the first and last revision that has it (``null``: it is still there)."""
    asked = _asked(name)
    return {
        "revisions": [{"revision": revision, "era": era_of(revision)} for revision in REVISIONS],
        "methods": [
            {"name": method.name, "kind": method.kind, "params": method.params, "result": method.result}
            | {key: _span(getattr(method, key)) for key in _METHOD_SPANS}
            for method in METHODS.values()
            if asked(method.name)
        ],
        "capabilities": {
            side: {path: _span(field.span) for path, field in _paths(of) if asked(*_above(path))}
            for side, of in _DECLARED.items()
        },
        "relayed": [
            {"capability": relay.name, "when": relay.when, "asks": relay.asks} for relay in RELAYS if asked(relay.name)
        ],
        "codes": [
            {"code": code.code, "name": code.name} | _span_of(code.span)
            for code in CODES
            if asked(str(code.code), code.name)
        ],
        "contentKinds": [{"kind": kind} | _span_of(span) for kind, span in KINDS.items() if asked(kind)],
        "types": {
            row.name: [
                {"name": field.name, "type": field.of, "shape": field.shape, "requiredIn": sorted(field.needed)}
                | _span_of(field.span)
                for field in row.fields.values()
            ]
            for row in RECORDS.values()
            if asked(row.name)
        },
    }


def _asked(name: str | None) -> Callable[..., bool]:
    """Whether something that has these names is asked for."""
    if name is None:
        return lambda *_: True
    folded = name.casefold()
    return lambda *names: any(folded == each.casefold() for each in names)


_METHOD_SPANS = ("host", "upstream", "question", "interrupts", "cached")


def _span(span: Span | None) -> dict[str, str | None] | None:
    return None if span is None else _span_of(span)


def _span_of(span: Span) -> dict[str, str | None]:
    return {"since": span.since, "until": span.until}


def _lines(asked: Callable[..., bool]) -> Iterator[str]:
    yield _row("", lambda revision: revision)
    yield _row("Era", era_of)
    for title, entries in _sections():
        lines = [line for entry in entries if asked(*entry.names) for line in entry.lines]
        if lines:
            yield from _heading(title)
            yield from lines


def _sections() -> Iterator[tuple[str, list[Entry]]]:
    methods = METHODS.values()
    for title, kind in (
        ("Requests (who may send them; ask: inside a result)", "request"),
        ("Notifications (who may send them)", "notification"),
    ):
        yield title, [_entry(method.name, cell=_sender(method)) for method in methods if method.kind == kind]
    for title, key in (("Results that may ask for input", "interrupts"), ("Results that may be cached", "cached")):
        spans: list[tuple[str, Span | None]] = [(method.name, getattr(method, key)) for method in methods]
        yield title, [_entry(name, cell=_presence(span)) for name, span in spans if span is not None]
    for side, of in _DECLARED.items():
        paths = _paths(of)
        title = f"Capabilities of a {side}"
        yield title, [Entry(_above(path), [_row(path, _presence(field.span))]) for path, field in paths]
    title = "What upstreams are told of a host's capabilities"
    yield title, [Entry((relay.name,), [f"{relay.name:<{_LABEL}}{_WHEN[relay.when]}"]) for relay in RELAYS]
    codes = [((str(code.code), code.name), code.span) for code in CODES]
    yield "Error codes", [Entry(both, [_row(" ".join(both), _presence(span))]) for both, span in codes]
    yield "Kinds of content", [_entry(kind, cell=_presence(span)) for kind, span in KINDS.items()]
    yield "Fields by type (req: required)", [Entry((name,), list(_type(name))) for name in RECORDS]


def _entry(name: str, cell: Callable[[str], str]) -> Entry:
    return Entry((name,), [_row(name, cell)])


def _above(path: str) -> tuple[str, ...]:
    """A capability's path, and those of all that it is part of: it is shown with each of them."""
    parts = path.split(".")
    return tuple(".".join(parts[:length]) for length in range(len(parts), 0, -1))


def _heading(title: str) -> list[str]:
    return ["", title, "=" * len(title)]


def _row(label: str, cell: Callable[[str], str]) -> str:
    return f"{label:<{_LABEL}}" + " ".join(f"{cell(revision):<{_CELL}}" for revision in REVISIONS)


def _presence(span: Span) -> Callable[[str], str]:
    return lambda revision: "yes" if span.covers(revision) else _NONE


def _sender(method: Method) -> Callable[[str], str]:
    senders = {"host": method.host, "server": method.upstream, "ask": method.question}

    def cell(revision: str) -> str:
        said = [who for who, span in senders.items() if span is not None and span.covers(revision)]
        return "both" if len(said) > 1 else said[0] if said else _NONE

    return cell


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
