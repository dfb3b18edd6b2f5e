"""The era of each request: LV-24 to the letter, and what a handshake is read as."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET, Raw

from mcpx.errors import McpxError, RemoteProtocolError, RpcError
from mcpx.host.eras import MAX_INTRODUCED, MAX_SHOWN, HostState
from mcpx.spec.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO, SUBSCRIPTION_ID
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN, LEGACY, SUPPORTED, V2024_11_05, V2025_06_18
from tests.unit.host.talk import raw

ENVELOPE = {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {"elicitation": {}}}


def state() -> HostState:
    return HostState("h", V2024_11_05)


def shaken(revision: str) -> HostState:
    host = state()
    host.read("initialize", raw({"protocolVersion": revision, "capabilities": {"roots": {}}}))
    return host


def refused(host: HostState, params: Any, method: str = "tools/call") -> tuple[int, Any]:
    with pytest.raises(McpxError) as caught:
        host.read(method, raw(params))
    assert isinstance(caught.value, (RemoteProtocolError, RpcError))
    return caught.value.code, getattr(caught.value, "data", None)


def test_a_request_without_metadata_is_of_the_assumed_revision_until_a_handshake() -> None:
    host = state()
    assert host.revision is None
    early = host.read("tools/call", raw({"name": "x"}))
    assert (early.revision, early.modern, early.params) == (V2024_11_05, False, {"name": Raw(b'"x"')})
    host.read("initialize", raw({"protocolVersion": V2025_06_18}))
    assert host.read("tools/call", UNSET).revision == V2025_06_18
    assert host.revision == V2025_06_18


def test_a_modern_request_speaks_for_itself_and_carries_nothing_over() -> None:
    host = shaken(V2025_06_18)
    meta = ENVELOPE | {
        CLIENT_INFO: {"name": "n", "version": "1"},
        LOG_LEVEL: "info",
        "traceparent": "00-1",
        "x.org/y": 1,
    }
    modern = host.read("tools/call", raw({"name": "x", "_meta": meta}))
    assert (modern.revision, modern.modern) == (LATEST_MODERN, True)
    assert modern.asker.host == "h"
    assert modern.asker.capabilities == {"elicitation": Raw(b"{}")}
    assert modern.asker.client_info == raw({"name": "n", "version": "1"})
    assert modern.asker.log_level == "info"
    assert modern.meta == {"traceparent": Raw(b'"00-1"'), "x.org/y": Raw(b"1")}
    assert "_meta" not in modern.params
    bare = host.read("tools/call", raw({"_meta": {PROTOCOL_VERSION: LATEST_MODERN, CLIENT_CAPABILITIES: {}}}))
    assert (bare.asker.capabilities, bare.asker.client_info, bare.asker.log_level) == ({}, None, None)
    legacy = host.read("tools/call", raw({"_meta": {"traceparent": "00-2"}}))
    assert (legacy.revision, legacy.asker.capabilities) == (V2025_06_18, {"roots": Raw(b"{}")})


def test_what_belongs_to_no_request_is_told_in_the_revision_of_the_handshake_else_of_the_last_envelope() -> None:
    host = state()
    host.read("tools/call", UNSET)
    assert host.revision is None
    host.read("tools/call", raw({"_meta": ENVELOPE}))
    assert host.revision == LATEST_MODERN
    host.read("initialize", raw({"protocolVersion": V2024_11_05}))
    host.read("tools/call", raw({"_meta": ENVELOPE}))
    assert host.revision == V2024_11_05


def test_one_envelope_makes_one_asker() -> None:
    host = state()
    one, two = (host.read("ping", raw({"_meta": ENVELOPE | {"progressToken": n}})) for n in (1, 2))
    other = host.read("ping", raw({"_meta": ENVELOPE | {LOG_LEVEL: "error"}}))
    assert one.asker is two.asker
    assert other.asker is not one.asker
    assert other.asker.log_level == "error"


def test_an_asker_does_not_hold_on_to_the_request_it_came_with() -> None:
    text = json.dumps({"arguments": "x" * 1000, "_meta": ENVELOPE | {CLIENT_INFO: {"name": "n"}}}).encode()
    asker = state().read("tools/call", Raw(text)).asker
    assert asker.client_info is not None
    assert len(memoryview(asker.client_info).obj) < 100  # type: ignore[arg-type]
    assert len(memoryview(asker.capabilities["elicitation"]).obj) < 100  # type: ignore[arg-type]


@pytest.mark.parametrize("key", [PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL])
def test_any_reserved_key_makes_a_request_modern_and_one_alone_is_too_little(key: str) -> None:
    values = ENVELOPE | {CLIENT_INFO: {"name": "n", "version": "1"}, LOG_LEVEL: "info"}
    assert refused(state(), {"_meta": {key: values[key]}})[0] == -32602


@pytest.mark.parametrize("key", [PROTOCOL_VERSION, CLIENT_CAPABILITIES])
def test_both_required_keys_are_required(key: str) -> None:
    meta = {name: value for name, value in ENVELOPE.items() if name != key}
    assert refused(state(), {"_meta": meta | {LOG_LEVEL: "info"}})[0] == -32602


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PROTOCOL_VERSION, 20260728),
        (PROTOCOL_VERSION, None),
        (CLIENT_CAPABILITIES, []),
        (CLIENT_CAPABILITIES, None),
        (CLIENT_CAPABILITIES, "{}"),
        (CLIENT_INFO, "me"),
        (LOG_LEVEL, 3),
        (LOG_LEVEL, "loud"),
    ],
)
def test_a_reserved_key_of_the_wrong_type_is_malformed(key: str, value: Any) -> None:
    assert refused(shaken(V2025_06_18), {"_meta": ENVELOPE | {key: value}})[0] == -32602


@pytest.mark.parametrize("version", [*LEGACY, "2027-01-01", "1900-01-01", "DRAFT", ""])
def test_a_version_that_is_not_modern_gets_the_list(version: str) -> None:
    for method in ("tools/call", "server/discover", "initialize"):
        code, data = refused(state(), {"_meta": ENVELOPE | {PROTOCOL_VERSION: version}}, method)
        assert code == -32022
        assert data == {"supported": SUPPORTED, "requested": version}


def test_an_initialize_in_a_modern_envelope_opens_nothing() -> None:
    host = shaken(V2025_06_18)
    inbound = host.read("initialize", raw({"protocolVersion": V2024_11_05, "_meta": ENVELOPE}))
    assert (inbound.modern, inbound.revision, inbound.handshake) == (True, LATEST_MODERN, None)
    assert host.legacy.revision == V2025_06_18


def test_the_reserved_name_elsewhere_makes_nothing_modern() -> None:
    params = {
        "arguments": {PROTOCOL_VERSION: LATEST_MODERN},
        "_meta": {"x": PROTOCOL_VERSION, PROTOCOL_VERSION + "x": 1},
    }
    assert not state().read("tools/call", raw(params)).modern


def test_an_escaped_key_is_the_same_key() -> None:
    text = json.dumps({"_meta": ENVELOPE}).replace("io.modelcontextprotocol/", "\\u0069o.modelcontextprotocol\\/")
    assert state().read("tools/call", Raw(text.encode())).modern


def test_keys_of_this_hop_do_not_pass() -> None:
    meta = {"progressToken": 1, SERVER_INFO: {}, SUBSCRIPTION_ID: 1, "kept": 1}
    assert state().read("tools/call", raw({"_meta": meta})).meta == {"kept": Raw(b"1")}


@pytest.mark.parametrize("token", ["1", '"1"', "7.0", '""', "12345678901234567890", '"\\u00e9"'])
def test_a_progress_token_keeps_its_spelling(token: str) -> None:
    params = Raw(b'{"_meta":{"progressToken":%b}}' % token.encode())
    assert state().read("tools/call", params).token == Raw(token.encode())


@pytest.mark.parametrize("token", ["null", "1.5", "true", "{}", "[1]"])
def test_a_progress_token_that_is_none_is_not_used(token: str) -> None:
    assert state().read("tools/call", Raw(b'{"_meta":{"progressToken":%b}}' % token.encode())).token is None


@pytest.mark.parametrize("params", [[], [1], "x", 7, True])
def test_params_that_are_no_object_are_malformed(params: Any) -> None:
    assert refused(state(), params)[0] == -32602
    assert refused(state(), {"_meta": params})[0] == -32602


def test_null_is_how_some_hosts_leave_out_an_object() -> None:
    assert state().read("tools/call", Raw(b"null")).params == {}
    assert state().read("tools/call", raw({"a": 1, "_meta": None})).params == {"a": Raw(b"1")}


@pytest.mark.parametrize("params", [UNSET, *map(raw, [{}, [], None, "x", 3, {"protocolVersion": "1999"}])])
def test_an_initialize_that_names_nothing_spoken_agrees_on_the_latest(params: Any) -> None:
    host = state()
    inbound = host.read("initialize", params)
    assert inbound.revision == LATEST_LEGACY
    assert inbound.handshake is host.legacy
    assert host.legacy.asker.capabilities == {}


@pytest.mark.parametrize("version", [None, 1, 2025.06, True, [LATEST_LEGACY], {"v": LATEST_LEGACY}])
def test_a_version_that_is_no_string_is_an_error_and_changes_nothing(version: Any) -> None:
    host = shaken(V2025_06_18)
    code, data = refused(host, {"protocolVersion": version}, "initialize")
    assert code == -32602
    assert data == {"supported": LEGACY, "requested": raw(version)}
    assert host.legacy.revision == V2025_06_18


def test_a_second_initialize_replaces_all_of_the_first() -> None:
    host = shaken(V2025_06_18)
    first = host.legacy
    inbound = host.read("initialize", raw({"protocolVersion": V2024_11_05, "clientInfo": {"name": "n"}}))
    assert inbound.handshake is host.legacy is not first
    assert host.legacy.asker.capabilities == {}
    assert host.legacy.asker.client_info == raw({"name": "n"})
    assert host.read("ping", UNSET).asker is host.legacy.asker


def test_malformed_capabilities_and_client_info_are_none() -> None:
    host = state()
    host.read("initialize", raw({"protocolVersion": LATEST_LEGACY, "capabilities": [], "clientInfo": 3, "_meta": 1}))
    assert (host.legacy.asker.capabilities, host.legacy.asker.client_info) == ({}, None)


def introductions(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_who_has_connected_goes_into_the_log_once_for_each_identity_and_revision(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "mcpx.host")
    host = state()
    old = raw({"protocolVersion": LATEST_LEGACY, "clientInfo": {"name": "desk", "version": "1.2", "secret": "hush"}})
    one, two = (raw({"_meta": ENVELOPE | {CLIENT_INFO: {"name": name, "version": "3"}}}) for name in ("one", "two"))
    for method, params in [
        ("initialize", old),
        *[("ping", each) for each in (one, one, two, one)],
        ("initialize", old),
    ]:
        host.read(method, params)
    assert introductions(caplog) == [
        ("INFO", f'Host "desk 1.2" connected on h, revision {LATEST_LEGACY}'),
        ("INFO", f'Host "one 3" connected on h, revision {LATEST_MODERN}'),
        ("INFO", f'Host "two 3" connected on h, revision {LATEST_MODERN}'),
        ("DEBUG", f'Host "desk 1.2" connected on h, revision {LATEST_LEGACY}'),
    ]


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ({"name": "n" * 10_000, "version": "1"}, '"' + "n" * MAX_SHOWN + '..."'),
        ({"name": "n", "version": 3}, '"n"'),
        ({"name": "", "version": "2"}, "without a name"),
        ({"version": "2"}, "without a name"),
        ("n", "without a name"),
        (None, "without a name"),
    ],
)
def test_a_host_that_is_odd_about_its_name(caplog: pytest.LogCaptureFixture, info: object, shown: str) -> None:
    caplog.set_level("INFO", "mcpx.host")
    state().read("initialize", raw({"protocolVersion": LATEST_LEGACY, "clientInfo": info}))
    assert introductions(caplog) == [("INFO", f"Host {shown} connected on h, revision {LATEST_LEGACY}")]


def test_a_host_that_is_another_on_each_request_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mcpx.host")
    host = state()
    for number in range(MAX_INTRODUCED + 5):
        host.read("ping", raw({"_meta": ENVELOPE | {CLIENT_INFO: {"name": f"agent {number}", "version": "1"}}}))
    assert len(caplog.records) == MAX_INTRODUCED
