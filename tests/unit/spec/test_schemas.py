"""The strict validator itself: what it must let through, and what it must not."""

from __future__ import annotations

from typing import Any

import pytest

from mcpx.spec.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID
from mcpx.spec.revisions import (
    LEGACY,
    REVISIONS,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    V2026_07_28,
)
from tests.support.schemas import SchemaFault, validate, validate_params, validate_type

META = {PROTOCOL_VERSION: V2026_07_28, CLIENT_CAPABILITIES: {"vendor": {"n": 1.5, "z": None}}}


def request(method: str, params: Any = None) -> dict[str, Any]:
    frame: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method}
    return frame if params is None else {**frame, "params": params}


def notification(method: str, params: Any = None) -> dict[str, Any]:
    frame = request(method, params)
    del frame["id"]
    return frame


def result(value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "a", "result": value}


def error(code: int, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "m", **more}}


LOOKALIKES = {"title": 1, "requestState": 2, "resultType": 3}
TOOL: dict[str, Any] = {"name": "x", "inputSchema": {"type": "object", "$schema": "x", "title": "t"}}


@pytest.mark.parametrize("revision", LEGACY)
def test_good_frames_of_a_legacy_peer(revision: str) -> None:
    validate(request("tools/call", {"name": "x", "arguments": LOOKALIKES}), revision, sender="client")
    validate(request("ping"), revision, sender="server")
    validate(request("sampling/createMessage", {"messages": [], "maxTokens": 1}), revision, sender="server")
    validate(notification("notifications/roots/list_changed"), revision, sender="client")
    validate(result({"tools": [{**TOOL, "_meta": LOOKALIKES}]}), revision, sender="server", method="tools/list")
    validate(result({"content": [], "vendor": LOOKALIKES}), revision, sender="server", method="tools/call")
    validate(result({}), revision, sender="client", method="ping")
    validate(result({"anything": 1}), revision, sender="server")
    validate(error(-32002, data=LOOKALIKES), revision, sender="server")


def test_good_frames_of_a_modern_peer() -> None:
    validate(request("tools/call", {"name": "x", "_meta": META}), V2026_07_28, sender="client")
    asks = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}
    validate(result(asks), V2026_07_28, sender="server", method="tools/call")
    cached = {"tools": [TOOL], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    validate(result(cached), V2026_07_28, sender="server", method="tools/list")
    validate(error(-32022, data={"supported": [], "requested": "x"}), V2026_07_28, sender="server")


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_one_exemption(revision: str) -> None:
    """An error for a request whose id cannot be known."""
    unknown = {**error(-32700), "id": None}
    without = {key: value for key, value in unknown.items() if key != "id"}
    good, bad = (without, unknown) if revision in (V2025_11_25, V2026_07_28) else (unknown, without)
    validate(good, revision, sender="server")
    with pytest.raises(SchemaFault):
        validate(bad, revision, sender="server")


TAGGED = {"uri": "file:///a", "_meta": {SUBSCRIPTION_ID: 1}}
NEWER = {"type": "text", "text": "x", "annotations": {"lastModified": "now"}}


@pytest.mark.parametrize(
    ("frame", "revision", "sender", "method"),
    [
        # of another revision
        (request("tools/call", {"name": "x", "requestState": "s"}), V2025_11_25, "client", None),
        (request("tools/call", {"name": "x", "task": {}}), V2025_06_18, "client", None),
        (request("ping"), V2026_07_28, "client", None),
        (request("roots/list"), V2026_07_28, "server", None),
        (request("elicitation/create", {"message": "m"}), V2025_03_26, "server", None),
        (notification("notifications/progress", {"progressToken": 1, "progress": 1}), V2026_07_28, "client", None),
        (
            notification("notifications/progress", {"progressToken": 1, "progress": 1, "message": "m"}),
            V2024_11_05,
            "server",
            None,
        ),
        (result({"content": [], "resultType": "complete"}), V2025_11_25, "server", "tools/call"),
        (result({"resultType": "complete"}), V2025_11_25, "server", "ping"),
        (result({"_meta": {SERVER_INFO: {"name": "n", "version": "1"}}}), V2025_11_25, "server", "ping"),
        (request("ping", {"_meta": {PROTOCOL_VERSION: V2026_07_28}}), V2025_11_25, "client", None),
        (notification("notifications/resources/updated", TAGGED), V2025_11_25, "server", None),
        (result({"content": [NEWER]}), V2025_03_26, "server", "tools/call"),
        (result({"messages": [{"role": "user", "content": NEWER}]}), V2025_03_26, "server", "prompts/get"),
        (result({"content": [{"type": "audio", "data": "", "mimeType": "a"}]}), V2024_11_05, "server", "tools/call"),
        (result({"tools": [{**TOOL, "title": "X"}]}), V2025_03_26, "server", "tools/list"),
        (result({"tools": [{**TOOL, "execution": {}}]}), V2025_06_18, "server", "tools/list"),
        (result({"content": [], "structuredContent": [1]}), V2025_11_25, "server", "tools/call"),
        (
            request(
                "initialize",
                {
                    "protocolVersion": V2025_06_18,
                    "clientInfo": {"name": "n", "version": "1"},
                    "capabilities": {"sampling": {"tools": {}}},
                },
            ),
            V2025_06_18,
            "client",
            None,
        ),
        (error(-32042), V2026_07_28, "server", None),
        (error(-32002), V2026_07_28, "server", None),
        # of the wrong side
        (request("tools/list"), V2025_11_25, "server", None),
        (notification("notifications/initialized"), V2025_11_25, "server", None),
        (notification("tools/list"), V2025_11_25, "client", None),
        # incomplete, or no frame at all
        (request("tools/call", {"name": "x"}), V2026_07_28, "client", None),
        (result({"content": []}), V2026_07_28, "server", "tools/call"),
        (result({"resultType": "input_required"}), V2026_07_28, "server", "tools/list"),
        (result([]), V2025_11_25, "server", None),
        (error(-32022), V2026_07_28, "server", None),
        ({"id": 1, "method": "ping"}, V2025_11_25, "client", None),
        ({**request("ping"), "id": None}, V2025_11_25, "client", None),
        ({**request("ping"), "id": 1.5}, V2025_11_25, "client", None),
        ({"jsonrpc": "2.0"}, V2025_11_25, "client", None),
        (request("vendor/thing"), V2025_11_25, "client", None),
    ],
)
def test_faults(frame: dict[str, Any], revision: str, sender: Any, method: str | None) -> None:
    with pytest.raises(SchemaFault):
        validate(frame, revision, sender=sender, method=method)


def test_the_form_of_an_older_elicitation_is_held_against_too() -> None:
    form = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
    validate_params("elicitation/create", {"message": "m", "requestedSchema": form}, V2025_11_25)
    with pytest.raises(SchemaFault, match="has no default in StringSchema"):
        validate_params("elicitation/create", {"message": "m", "requestedSchema": form}, V2025_06_18)


def test_fractions_and_null_are_json() -> None:
    validate_type({"action": "accept", "content": {"a": 1.5}}, V2025_06_18, "ElicitResult")
    validate_type({"experimental": {"x": {"a": 1.5, "b": None, "c": [None]}}}, V2026_07_28, "ClientCapabilities")
