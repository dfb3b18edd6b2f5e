"""From exceptions to errors on the wire, which happens in one place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcpx.errors import (
    LocalProtocolError,
    McpxError,
    RemoteProtocolError,
    RpcError,
    UnknownItem,
    UpstreamError,
    UpstreamTimeout,
)
from mcpx.host import answer
from mcpx.host.answer import Refused
from mcpx.spec.carry import CannotSay
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, V2025_06_18

ID = Raw(b"1")


def error(failure: BaseException, revision: str | None = LATEST_LEGACY) -> dict[str, Any]:
    return json.loads(answer.error(ID, failure, "tools/call", revision).data)["error"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (RemoteProtocolError(-32600, "bad"), {"code": -32600, "message": "bad"}),
        (RpcError(7, "seven"), {"code": 7, "message": "seven"}),
        (RpcError(7, "seven", Raw(b"null")), {"code": 7, "message": "seven", "data": None}),
        (RpcError(-32022, "v", {"supported": ("a",)}), {"code": -32022, "message": "v", "data": {"supported": ["a"]}}),
        (UnknownItem("tool", "x"), {"code": -32602, "message": "Unknown tool: x"}),
        (UnknownItem("resource", "u:x"), {"code": -32002, "message": "Unknown resource: u:x", "data": {"uri": "u:x"}}),
        (UpstreamError("s", "why"), {"code": -32603, "message": "s: why", "data": {"server": "s", "reason": "why"}}),
        (UpstreamTimeout("s", "t"), {"code": -32603, "message": "s: t", "data": {"server": "s", "reason": "t"}}),
        (Refused("no"), {"code": -32603, "message": "no", "data": {"reason": "no"}}),
        (CannotSay("no"), {"code": -32603, "message": "no", "data": {"reason": "no"}}),
    ],
)
def test_what_is_raised_on_purpose(failure: Exception, expected: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert error(failure) == expected
    assert error(ExceptionGroup("g", [failure])) == expected
    assert not caplog.records


@pytest.mark.parametrize(
    "failure",
    [
        ValueError("secret"),
        RecursionError("secret"),
        LocalProtocolError("secret"),
        ExceptionGroup("g", [RpcError(1, "x"), ValueError("secret")]),
        ExceptionGroup("g", [McpxError("x"), ExceptionGroup("h", [KeyError("secret")])]),
    ],
)
def test_anything_else_is_a_bug_and_its_traceback_is_for_the_log_alone(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    assert error(failure) == {"code": -32603, "message": "Internal error"}
    assert "secret" in caplog.text
    assert "tools/call" in caplog.text


def test_an_upstreams_error_is_carried_to_the_hosts_revision() -> None:
    modern_only = RpcError(-32021, "needs more", {"requiredCapabilities": {}}, revision=LATEST_MODERN, server="s")
    assert error(modern_only, LATEST_MODERN)["code"] == -32021
    assert error(modern_only, V2025_06_18)["code"] == -32603


def test_before_a_host_has_spoken_nothing_is_carried() -> None:
    assert error(RpcError(-32602, "m", [1]), None) == {"code": -32602, "message": "m", "data": [1]}
    assert error(UnknownItem("resource", "x"), None)["code"] == -32002


def test_an_id_that_is_not_known() -> None:
    failure = RemoteProtocolError(-32700, "Parse error")
    for revision, expected in (
        (None, {"id": None}),
        (V2025_06_18, {"id": None}),
        (LATEST_LEGACY, {}),
        (LATEST_MODERN, {}),
    ):
        frame = json.loads(answer.error(None, failure, "", revision).data)
        assert {key: value for key, value in frame.items() if key == "id"} == expected


def test_a_result_is_the_payloads_own_bytes() -> None:
    payload = Raw(b' {"a" : 1.0}')
    assert answer.result(Raw(b'"\\u0041"'), payload).data == b'{"jsonrpc":"2.0","id":"\\u0041","result": {"a" : 1.0}}'
