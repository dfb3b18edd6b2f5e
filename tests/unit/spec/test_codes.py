"""Error codes across the hop."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcpx.errors import RpcError
from mcpx.spec.codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    MISSING_CLIENT_CAPABILITY,
    MODERN_CODES,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
    URL_ELICITATION_REQUIRED,
    carry_error,
    unknown_item,
)
from mcpx.spec.revisions import LATEST_LEGACY, LEGACY, REVISIONS, V2025_06_18, V2026_07_28
from mcpx.wire.frames import INTERNAL_ERROR, METHOD_NOT_FOUND
from tests.support.schemas import validate

DATA = Raw(b'{"uri":"file:///a","n":1.0}')


def said(method: str, code: int, source: str | None, target: str, data: Any = DATA) -> RpcError:
    return carry_error(method, RpcError(code, "Not so", data, revision=source, server="up"), target)


def data_of(error: RpcError) -> Any:
    return msgspec.json.decode(msgspec.json.encode(error.data))


@pytest.mark.parametrize("code", [METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, 1, -1, -32000, -32019, -32100])
def test_an_error_reaches_the_host_as_it_is(code: int) -> None:
    for source, target in product(REVISIONS, REVISIONS):
        error = RpcError(code, "Not so", DATA, revision=source, server="up")
        assert carry_error("tools/call", error, target) is error


@pytest.mark.parametrize("target", REVISIONS)
@pytest.mark.parametrize("code", [RESOURCE_NOT_FOUND, HEADER_MISMATCH, -32050])
def test_errors_of_mcpx_itself_always_pass(target: str, code: int) -> None:
    error = RpcError(code, "Not so")
    assert carry_error("resources/read", error, target) is error


@pytest.mark.parametrize(
    ("code", "source", "target", "becomes"),
    [
        (RESOURCE_NOT_FOUND, LATEST_LEGACY, V2026_07_28, INVALID_PARAMS),
        (RESOURCE_NOT_FOUND, V2026_07_28, V2026_07_28, INVALID_PARAMS),
        (RESOURCE_NOT_FOUND, LATEST_LEGACY, V2025_06_18, RESOURCE_NOT_FOUND),
        (INVALID_PARAMS, V2026_07_28, LATEST_LEGACY, RESOURCE_NOT_FOUND),
        (INVALID_PARAMS, LATEST_LEGACY, V2025_06_18, INVALID_PARAMS),  # there it means what it says
        (INVALID_PARAMS, LATEST_LEGACY, V2026_07_28, INVALID_PARAMS),
        (INVALID_PARAMS, V2026_07_28, V2026_07_28, INVALID_PARAMS),
    ],
)
def test_a_resource_that_does_not_exist(code: int, source: str, target: str, becomes: int) -> None:
    error = said("resources/read", code, source, target)
    assert (error.code, error.message, error.data, error.server) == (becomes, "Not so", DATA, "up")
    elsewhere = said("tools/call", code, source, target)  # there it means something else
    forbidden = code == RESOURCE_NOT_FOUND and target == V2026_07_28
    assert elsewhere.code == (INTERNAL_ERROR if forbidden else code)


@pytest.mark.parametrize("source", REVISIONS)
@pytest.mark.parametrize("target", REVISIONS)
@pytest.mark.parametrize("code", [HEADER_MISMATCH, UNSUPPORTED_VERSION])
def test_errors_about_the_request_of_mcpx_name_the_server(source: str, target: str, code: int) -> None:
    error = said("tools/call", code, source, target)
    assert error.code == INTERNAL_ERROR
    assert error.data == {"server": "up", "reason": error.message}
    assert error.message == f"up refused the request as mcpx made it: Not so ({code})"
    assert carry_error("tools/call", error, target).data == error.data


@pytest.mark.parametrize("target", LEGACY)
def test_a_missing_capability_is_internal_for_a_legacy_host(target: str) -> None:
    error = said("tools/call", MISSING_CLIENT_CAPABILITY, V2026_07_28, target)
    assert (error.code, error.message, error.data) == (INTERNAL_ERROR, "Not so", DATA)


def test_a_missing_capability_stays_for_a_modern_host() -> None:
    data = Raw(b'{"requiredCapabilities":{"sampling":{}}}')
    error = said("tools/call", MISSING_CLIENT_CAPABILITY, V2026_07_28, V2026_07_28, data)
    assert (error.code, error.data) == (MISSING_CLIENT_CAPABILITY, data)


@pytest.mark.parametrize("data", [None, DATA, 5, {"requiredCapabilities": 5}, {"elicitations": {}}])
def test_a_code_that_comes_without_its_data_means_nothing(data: Any) -> None:
    for code, target in ((MISSING_CLIENT_CAPABILITY, V2026_07_28), (URL_ELICITATION_REQUIRED, LATEST_LEGACY)):
        error = said("tools/call", code, target, target, data)
        assert error.code == INTERNAL_ERROR
        assert data_of(error)["upstreamCode"] == code


@pytest.mark.parametrize("code", [URL_ELICITATION_REQUIRED, -32023, -32029, -32099])
def test_a_code_that_only_the_specification_may_define(code: int) -> None:
    error = said("tools/call", code, LATEST_LEGACY, V2026_07_28)
    assert (error.code, error.message) == (INTERNAL_ERROR, "Not so")
    assert data_of(error) == {"uri": "file:///a", "n": 1.0, "upstreamCode": code}
    assert b'"n":1.0' in msgspec.json.encode(error.data)
    assert said("tools/call", code, LATEST_LEGACY, V2025_06_18).code == code
    assert data_of(said("tools/call", code, V2026_07_28, V2026_07_28, None)) == {"upstreamCode": code}
    for data in ([1], "x", 5):
        moved = said("tools/call", code, V2026_07_28, V2026_07_28, data)
        assert data_of(moved) == {"upstreamCode": code, "data": data}


def test_what_does_not_exist_by_revision() -> None:
    for revision in REVISIONS:
        assert unknown_item("tool", revision) == unknown_item("prompt", revision) == INVALID_PARAMS
        expected = INVALID_PARAMS if revision == V2026_07_28 else RESOURCE_NOT_FOUND
        assert unknown_item("resource", revision) == expected


@pytest.mark.parametrize("source", REVISIONS)
def test_whatever_code_an_upstream_sends_a_modern_host_gets_one_that_exists(source: str) -> None:
    for code in range(-32103, -31998):
        data = {"requiredCapabilities": {}} if code == MISSING_CLIENT_CAPABILITY else DATA
        error = said("resources/read", code, source, V2026_07_28, data)
        body = {"code": error.code, "message": error.message, "data": data_of(error)}
        validate({"jsonrpc": "2.0", "id": 1, "error": body}, V2026_07_28, sender="server")


def test_the_codes_that_give_a_modern_server_away() -> None:
    assert sorted(MODERN_CODES) == [-32022, -32021, -32020]
