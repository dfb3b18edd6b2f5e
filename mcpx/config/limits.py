"""Checking ``limits``, at the top of the file and within a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mcpx.config import values
from mcpx.config.document import JsonValue, Object, kind_of
from mcpx.settings import LimitRow, Limits, limit_rows

if TYPE_CHECKING:
    from mcpx.config.report import Place

_ROWS: dict[str, LimitRow] = {row.key: row for row in limit_rows()}
_PAIRS: dict[str, dict[str, LimitRow]] = {}  # the keys that hold an object: its members
for _row in _ROWS.values():
    _pair, _dot, _member = _row.key.partition(".")
    if _dot:
        _PAIRS.setdefault(_pair, {})[_member] = _row

# What a plain number stands for where the key holds an object.
_SHORT: dict[str, tuple[str, ...]] = {"callTimeout": ("idle",), "exitBudget": ("eof", "signal")}

KEYS: tuple[str, ...] = tuple(dict.fromkeys(key.partition(".")[0] for key in _ROWS))
GATEWAY_KEYS: tuple[str, ...] = tuple(
    dict.fromkeys(row.key.partition(".")[0] for row in _ROWS.values() if row.level == "gateway")
)
SERVER_KEYS: tuple[str, ...] = tuple(key for key in KEYS if key not in GATEWAY_KEYS)


def read_limits(place: Place, value: JsonValue, defaults: Limits, *, within_server: bool) -> Limits:
    """The limits that ``value`` sets on top of ``defaults``; ``None`` sets nothing. ``place`` is that of ``limits``."""
    if value is None:
        return defaults
    if not isinstance(value, Object):
        place.problem(f"must be an object, not {kind_of(value)}")
        return defaults
    changes: dict[str, Any] = {}
    for key, content in value.items():
        if key not in KEYS:
            place.unknown(key, SERVER_KEYS if within_server else KEYS)
        elif within_server and key in GATEWAY_KEYS:
            place.within(key).warning('has no effect within a server; it belongs into "limits" at the top of the file')
        else:
            _read_limit(place.within(key), key, content, changes)
    limits: Limits = msgspec.structs.replace(defaults, **changes)
    if (
        "call_timeout" in changes or "call_timeout_total" in changes
    ) and limits.call_timeout > limits.call_timeout_total:
        place.within("callTimeout").problem(
            f"idle ({limits.call_timeout:.15g}) must not be over total ({limits.call_timeout_total:.15g})"
        )
    return limits


def _read_limit(place: Place, key: str, value: JsonValue, changes: dict[str, Any]) -> None:
    if key not in _PAIRS:
        _read_number(place, _ROWS[key], value, changes)
    elif isinstance(value, Object):
        for member, content in value.items():
            if member in _PAIRS[key]:
                _read_number(place.within(member), _PAIRS[key][member], content, changes)
            else:
                place.unknown(member, _PAIRS[key])
    else:
        first, *others = _SHORT[key]
        _read_number(place, _PAIRS[key][first], value, changes)
        for member in others:
            if _PAIRS[key][first].field in changes:
                changes[_PAIRS[key][member].field] = changes[_PAIRS[key][first].field]


def _read_number(place: Place, row: LimitRow, value: JsonValue, changes: dict[str, Any]) -> None:
    number = values.number(
        place, value, least=row.least, most=row.most, whole=isinstance(row.default, int), unit=row.unit
    )
    if number is not None:
        changes[row.field] = number
