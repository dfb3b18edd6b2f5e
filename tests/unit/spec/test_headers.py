"""MCP's headers, as 2026-07-28 basic/transports/streamable-http has them (Request Metadata, Server Validation)."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcpx.errors import LocalProtocolError, RpcError
from mcpx.spec import headers as headers_module
from mcpx.spec.codes import HEADER_MISMATCH
from mcpx.spec.headers import (
    MAX_PARAMS,
    MAX_SCHEMA,
    NAMED,
    BadAnnotation,
    ParamHeader,
    check_headers,
    check_params,
    declared_params,
    param_headers,
    request_headers,
)
from mcpx.spec.revisions import LATEST_MODERN as VERSION

STRING = {"type": "string"}


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def params(**members: Any) -> dict[str, Raw]:
    return {name: raw(value) for name, value in members.items()}


def annotated(name: Any = "Region", type: Any = "string", **more: Any) -> dict[str, Any]:
    return {"type": type, "x-mcp-header": name, **more}


def properties(**named: Any) -> dict[str, Any]:
    return {"type": "object", "properties": named}


class TestRequestHeaders:
    """Standard Request Headers."""

    @pytest.mark.parametrize(
        ("method", "members", "name"),
        [
            ("tools/call", {"name": "get_weather", "arguments": {}}, "get_weather"),
            ("prompts/get", {"name": "my-prompt", "uri": "no"}, "my-prompt"),
            ("resources/read", {"uri": "file:///a/config.json", "name": "no"}, "file:///a/config.json"),
            ("tools/call", {"name": "données"}, "=?base64?ZG9ubsOpZXM=?="),
            ("resources/read", {"uri": "file:///Załączniki/a b"}, "=?base64?ZmlsZTovLy9aYcWCxIVjem5pa2kvYSBi?="),
            ("tools/call", {"name": "=?base64?eA==?="}, "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
            ("tools/list", {"name": "no"}, None),
            ("server/discover", {}, None),
            ("tools/call", {}, None),
            ("tools/call", {"name": 7}, None),
        ],
    )
    def test_what_a_request_says(self, method: str, members: dict[str, Any], name: str | None) -> None:
        expected = {"mcp-protocol-version": VERSION, "mcp-method": method}
        if name is not None:
            expected["mcp-name"] = name
        assert request_headers(method, params(**members), VERSION) == expected

    @pytest.mark.parametrize("method", ["a\r\nX: y", "é", "", "a b"])
    def test_a_method_that_no_header_can_hold(self, method: str) -> None:
        with pytest.raises(LocalProtocolError, match="cannot be said in a header"):
            request_headers(method, {}, VERSION)


class TestDeclaredParams:
    """Schema Extension, and server/tools, x-mcp-header."""

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"type": "object"}, []),
            (properties(region=annotated(), query=STRING), [("Region", "region")]),
            (
                properties(b=annotated("B", "integer"), a=annotated("A", "boolean"), c=annotated("C")),
                [("B", "b"), ("A", "a"), ("C", "c")],
            ),
            (properties(options=properties(limit=annotated("Limit", "integer"))), [("Limit", "options", "limit")]),
            (properties(a={"properties": {"b": annotated("B")}}, c=annotated("C")), [("B", "a", "b"), ("C", "c")]),
            # SEP-2243: a standard header's name is a name like any other here
            (properties(m=annotated("Method")), [("Method", "m")]),
            (properties(m=annotated("!#$%&'*+-.^_`|~09azAZ")), [("!#$%&'*+-.^_`|~09azAZ", "m")]),
            # Called so, and no annotation
            ({"properties": {"x-mcp-header": STRING}}, []),
            ({"properties": {"x-mcp-header": annotated("X")}}, [("X", "x-mcp-header")]),
            ({"properties": {"a": STRING}, "required": ["x-mcp-header"]}, []),
            ({"$defs": {"x-mcp-header": STRING}, "patternProperties": {"x-mcp-header": STRING}}, []),
            ({"dependentRequired": {"x-mcp-header": ["a"]}}, []),
            ({"dependencies": {"x-mcp-header": ["a"]}, "dependentSchemas": {"x-mcp-header": True}}, []),
            # Data, and no schema
            (properties(a={"default": annotated()}, b={"enum": [annotated()]}, c={"examples": [annotated()]}), []),
            (properties(a={"const": {"x-mcp-header": ["x"]}}, b={"description": "x-mcp-header"}), []),
            # Schemas beside it that have no properties
            (properties(a=True, b=annotated("B"), c={"items": False}), [("B", "b")]),
        ],
    )
    def test_what_a_schema_declares(self, schema: Any, expected: list[tuple[str, ...]]) -> None:
        declared = declared_params(raw(schema))
        assert declared == tuple(ParamHeader(name, tuple(path)) for name, *path in expected)

    @pytest.mark.parametrize(
        "name",
        ["", " ", "My Region", "Region:Primary", "Région", "Region\t1", "a\r\nb", "a\n", "\0", "a/b", "a(b)", '"',
         None, 7, True, ["Region"], {}],
    )  # fmt: skip
    def test_a_name_that_is_no_token(self, name: Any) -> None:
        with pytest.raises(
            BadAnnotation, match=r"^the x-mcp-header of the property 'value' cannot be part of a header"
        ):
            declared_params(raw(properties(value=annotated(name))))

    @pytest.mark.parametrize(
        "type", ["number", "object", "array", "null", ["string"], ["string", "null"], None, "text"]
    )
    def test_a_type_that_is_not_primitive(self, type: Any) -> None:
        """One of the three names and nothing else: a list of types is none of them."""
        with pytest.raises(BadAnnotation, match=r"^the property 'value' has the x-mcp-header 'Region' and no type of"):
            declared_params(raw(properties(value=annotated(type=type))))

    def test_no_type(self) -> None:
        with pytest.raises(BadAnnotation, match=r"no type of string, integer, boolean$"):
            declared_params(raw(properties(value={"x-mcp-header": "Region", "anyOf": [STRING]})))

    @pytest.mark.parametrize(("one", "other"), [("Region", "Region"), ("MyField", "myfield")])
    def test_two_of_one_name(self, one: str, other: str) -> None:
        expected = f"^the x-mcp-header '{other}' is not unique: the property 'b.c' has the same as the property 'a'$"
        with pytest.raises(BadAnnotation, match=expected):
            declared_params(raw(properties(a=annotated(one), b=properties(c=annotated(other)))))

    @pytest.mark.parametrize(
        "schema",
        [
            annotated(type="object"),
            properties(a={"items": annotated()}),
            properties(a={"items": [annotated()]}),
            properties(a={"items": properties(b=annotated())}),
            properties(a={"prefixItems": [annotated()]}),
            properties(a={"contains": annotated()}),
            *({keyword: [STRING, properties(b=annotated())]} for keyword in ("oneOf", "anyOf", "allOf")),
            *({keyword: properties(b=annotated())} for keyword in ("not", "if", "then", "else")),
            properties(a={"anyOf": [annotated(), {"type": "null"}]}),
            {"$defs": {"a": annotated()}, "properties": {"a": {"$ref": "#/$defs/a"}}},
            {"definitions": {"a": annotated()}},
            {"additionalProperties": annotated()},
            {"patternProperties": {"^a": annotated()}},
            {"propertyNames": annotated()},
            {"dependentSchemas": {"a": properties(b=annotated())}},
            {"dependencies": {"a": properties(b=annotated())}},
            {"unevaluatedProperties": annotated()},
            {"x-vendor": {"any": [annotated()]}},
            {"properties": [annotated()]},
        ],
        ids=lambda schema: json.dumps(schema)[:60],
    )
    def test_where_properties_alone_do_not_lead(self, schema: Any) -> None:
        with pytest.raises(
            BadAnnotation, match=r"^the x-mcp-header 'Region' is on no property that `properties` alone"
        ):
            declared_params(raw({**properties(fine=annotated("Fine")), **schema}))

    def test_a_name_is_not_shown_at_any_length_nor_with_what_ends_a_line(self) -> None:
        with pytest.raises(BadAnnotation) as caught:
            declared_params(raw(properties(**{"p" * 999: annotated("a\nb" * 999)})))
        assert len(caught.value.reason) < 300
        assert "\n" not in caught.value.reason

    @pytest.mark.parametrize("depth", [50, 20_000])
    def test_however_deep_it_is_the_outcome_is_said(self, depth: int) -> None:
        schema = b'{"properties":{"a":' * depth + b'{"type":"string","x-mcp-header":"X"}' + b"}}" * depth
        if depth == 50:
            assert declared_params(Raw(schema)) == (ParamHeader("X", ("a",) * depth),)
        else:
            with pytest.raises(BadAnnotation, match="cannot be read, or not to its depth"):
                declared_params(Raw(schema))

    def test_no_more_of_them_than_a_request_could_carry(self) -> None:
        many = {f"p{number}": annotated(f"H{number}") for number in range(MAX_PARAMS)}
        assert len(declared_params(raw(properties(**many)))) == MAX_PARAMS
        with pytest.raises(BadAnnotation, match=f"^it has more than {MAX_PARAMS} x-mcp-header annotations"):
            declared_params(raw(properties(**many, one_more=annotated("More"))))

    def test_a_schema_that_nobody_would_write(self) -> None:
        schema = properties(a=annotated(), b={"description": "x" * MAX_SCHEMA})
        with pytest.raises(BadAnnotation, match=f"^its input schema has an x-mcp-header and more than {MAX_SCHEMA} by"):
            declared_params(raw(schema))

    def test_a_deep_and_wide_schema_takes_no_more_room_than_it_has_names(self) -> None:
        """Ten thousand properties four hundred levels down: whole paths of them all would be 32 MB."""
        schema = properties(**{f"p{number}": {} for number in range(10_000)}, last=annotated())
        for _ in range(400):
            schema = properties(a=schema)
        text = raw(schema)
        tracemalloc.start()
        try:
            [found] = declared_params(text)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert found == ParamHeader("Region", ("a",) * 400 + ("last",))
        assert peak < 40 * len(text)

    @pytest.mark.parametrize("schema", [b'"x-mcp-header"', b'["x-mcp-header"]', b"null", b"true"])
    def test_a_schema_that_is_none(self, schema: bytes) -> None:
        assert declared_params(Raw(schema)) == ()

    def test_a_schema_without_the_word_is_not_looked_at(self) -> None:
        assert declared_params(Raw(b"not JSON at all")) == ()


def one(name: str = "Region", *path: str) -> tuple[ParamHeader, ...]:
    return (ParamHeader(name, path or ("v",)),)


# An argument's JSON -> the header's value. (Value Encoding, Type conversion; SEP-2243, Value Encoding Edge Cases.)
SAID: dict[str, str | None] = {
    '"us-west1"': "us-west1",
    '"Hello, 世界"': "=?base64?SGVsbG8sIOS4lueVjA==?=",
    r'"line1\nline2"': "=?base64?bGluZTEKbGluZTI=?=",
    '" padded "': "=?base64?IHBhZGRlZCA=?=",
    '""': "",
    '"null"': "null",
    "true": "true",
    "false": "false",
    "42": "42",
    "-7": "-7",
    "0": "0",
    "-0": "0",
    "42.0": "42",
    "1e3": "1000",
    "1.5E+1": "15",
    "120e-1": "12",
    "9007199254740991": "9007199254740991",
    "-9007199254740991.0": "-9007199254740991",
    # Not for a header to judge: the schema refuses a fraction, and which integers it takes is the server's affair.
    "9007199254740993": "9007199254740993",
    "9007199254740992.0": "9007199254740992.0",
    "9007199254740991.0000000000000000000000000000001": "9007199254740991.0000000000000000000000000000001",
    "42.5": "42.5",
    "1e999": "1e999",
    "1e-999": "1e-999",
    "1e999999999999": "1e999999999999",
    "null": None,
    "{}": None,
    "[1]": None,
}


class TestParamHeaders:
    @pytest.mark.parametrize(("value", "header"), SAID.items())
    def test_how_a_value_is_said(self, value: str, header: str | None) -> None:
        arguments = Raw(f'{{"v": {value}}}'.encode())
        expected = {} if header is None else {"mcp-param-region": header}
        assert param_headers(one(), arguments) == expected
        check_params(expected, one(), arguments)

    @pytest.mark.parametrize(
        ("path", "arguments", "header"),
        [
            (("a", "b"), {"a": {"b": 1}, "b": 2}, "1"),
            (("a", "b"), {"a": {}}, None),
            (("a", "b"), {"a": None}, None),
            (("a", "b"), {"a": [{"b": 1}]}, None),
            (("a", "b"), {"a.b": 1}, None),
            (("a", "b"), {}, None),
            (("a",), [], None),
            (("a",), None, None),
            (("",), {"": "x"}, "x"),
        ],
    )
    def test_where_a_value_is(self, path: tuple[str, ...], arguments: Any, header: str | None) -> None:
        """Header extraction: the exact path of property names."""
        found = param_headers((ParamHeader("X", path),), raw(arguments))
        assert found == ({} if header is None else {"mcp-param-x": header})

    def test_what_many_are_in_is_taken_apart_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However large the object is, and however often a server asks for a part of it."""
        taken: list[int] = []
        members_of = headers_module.members_of

        def counted(value: Any) -> Any:
            taken.append(len(bytes(value)))
            return members_of(value)

        monkeypatch.setattr(headers_module, "members_of", counted)
        declared = tuple(ParamHeader(f"H{number}", ("a", "b", f"p{number}")) for number in range(MAX_PARAMS))
        arguments = raw({"a": {"b": {f"p{number}": number for number in range(MAX_PARAMS)}}})
        headers = param_headers(declared, arguments)
        assert len(headers) == MAX_PARAMS
        assert len(taken) == 3
        check_params(headers, declared, arguments)
        assert len(taken) == 6

    def test_no_arguments_at_all(self) -> None:
        assert param_headers(one(), None) == {}
        check_params({}, one(), None)


def refused(match: str) -> Any:
    return pytest.raises(RpcError, check=lambda error: error.code == HEADER_MISMATCH and str(error) == match)


GIVEN = {"mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": "foo"}


class TestCheckHeaders:
    """Server Validation, Case Sensitivity."""

    @pytest.mark.parametrize(
        "changed",
        [
            {},
            {"mcp-name": "  foo  ", "mcp-method": " tools/call\t"},
            {"mcp-name": "=?base64?Zm9v?="},  # encoded without need, and the same
            {"mcp-param-unknown": "\xff", "x-other": "y"},
        ],
    )
    def test_what_matches(self, changed: dict[str, str]) -> None:
        check_headers({**GIVEN, **changed}, "tools/call", params(name="foo"), VERSION)

    @pytest.mark.parametrize(
        ("changed", "said"),
        [
            ({"mcp-name": "bar"}, "Mcp-Name header value 'bar' does not match body value 'foo'"),
            ({"mcp-name": "Foo"}, "Mcp-Name header value 'Foo' does not match body value 'foo'"),
            ({"mcp-name": ""}, "Mcp-Name header value '' does not match body value 'foo'"),
            ({"mcp-name": "foo, foo"}, "Mcp-Name header value 'foo, foo' does not match body value 'foo'"),
            ({"mcp-name": "=?base64?YmFy?="}, "Mcp-Name header value 'bar' does not match body value 'foo'"),
            ({"mcp-name": "=?base64?!?="}, "Mcp-Name header value is not valid: it is marked as base64 and is none"),
            ({"mcp-name": "f\xf6"}, "Mcp-Name header value is not valid: it holds characters that no header may hold"),
            ({"mcp-name": None}, "Mcp-Name header is missing, and the body has the value 'foo'"),
            ({"mcp-method": None}, "Mcp-Method header is missing, and the body has the value 'tools/call'"),
            ({"mcp-method": "TOOLS/CALL"},
             "Mcp-Method header value 'TOOLS/CALL' does not match body value 'tools/call'"),
            ({"mcp-method": "=?base64?dG9vbHMvY2FsbA==?="},  # has no encoding
             "Mcp-Method header value '=?base64?dG9vbHMvY2FsbA==?=' does not match body value 'tools/call'"),
            ({"mcp-protocol-version": None},
             f"MCP-Protocol-Version header is missing, and the body has the value '{VERSION}'"),
            ({"mcp-protocol-version": "2099-01-01"},
             f"MCP-Protocol-Version header value '2099-01-01' does not match body value '{VERSION}'"),
            ({"mcp-name": "x" * 100}, f"Mcp-Name header value '{'x' * 80}…' does not match body value 'foo'"),
        ],
    )  # fmt: skip
    def test_what_does_not(self, changed: dict[str, str | None], said: str) -> None:
        headers = {name: value for name, value in {**GIVEN, **changed}.items() if value is not None}
        with refused(f"Header mismatch: {said}"):
            check_headers(headers, "tools/call", params(name="foo"), VERSION)

    @pytest.mark.parametrize("method", NAMED)
    def test_each_method_that_names_something(self, method: str) -> None:
        named = params(**{NAMED[method]: "ö"})
        headers = request_headers(method, named, VERSION)
        check_headers(headers, method, named, VERSION)
        del headers["mcp-name"]
        with refused("Header mismatch: Mcp-Name header is missing, and the body has the value 'ö'"):
            check_headers(headers, method, named, VERSION)

    @pytest.mark.parametrize("members", [{}, {"name": 7}])
    def test_a_body_that_lacks_the_name(self, members: dict[str, Any]) -> None:
        """Nothing to compare is not a mismatch: the params are wrong, and that is said elsewhere."""
        without = {name: value for name, value in GIVEN.items() if name != "mcp-name"}
        check_headers(without, "tools/call", params(**members), VERSION)
        with refused("Header mismatch: Mcp-Name header value 'foo' has no counterpart in the body"):
            check_headers(GIVEN, "tools/call", params(**members), VERSION)

    def test_a_name_for_a_method_that_names_nothing(self) -> None:
        check_headers({**GIVEN, "mcp-method": "tools/list"}, "tools/list", {}, VERSION)

    def test_notifications_need_none(self) -> None:
        """The page does not define their headers; one that is there must still say what the body does."""
        method = "notifications/cancelled"
        check_headers({}, method, {}, None, required=False)
        check_headers({}, method, {}, VERSION, required=False)
        check_headers({"mcp-protocol-version": VERSION}, method, {}, None, required=False)
        with refused(f"Header mismatch: Mcp-Method header value 'ping' does not match body value '{method}'"):
            check_headers({"mcp-method": "ping"}, method, {}, None, required=False)


class TestCheckParams:
    """Server Behavior for Custom Headers."""

    @pytest.mark.parametrize(
        ("header", "value"),
        [
            ("=?base64?SGVsbG8=?=", '"Hello"'),
            ("SGVsbG8=", '"SGVsbG8="'),
            ("=?base64?SGVsbG8=", '"=?base64?SGVsbG8="'),
            (" Hello ", '"Hello"'),
            ("42.0", "42"),
            ("42", "42.0"),
            ("4.2e1", "42"),
            ("=?base64?NDI=?=", "42"),
            ("-0", "0"),
            ("9007199254740993", "9007199254740993"),
            ("1e999999999999", "1e999999999999"),
            ("true", "true"),
            ("", '""'),
            ("a, b", '"a, b"'),
        ],
    )
    def test_what_matches(self, header: str, value: str) -> None:
        check_params({"mcp-param-region": header}, one(), Raw(f'{{"v": {value}}}'.encode()))

    @pytest.mark.parametrize(
        ("header", "value", "said"),
        [
            ("=?base64?SGVsbG8?=", '"Hello"', "header value is not valid: it is marked as base64 and is none"),
            ("=?base64?SGVs!!!bG8=?=", '"Hello"', "header value is not valid: it is marked as base64 and is none"),
            ("é", '"é"', "header value is not valid: it holds characters that no header may hold"),
            (None, '"x"', "header is missing, and the body has the value 'x'"),
            (None, "0", "header is missing, and the body has the value '0'"),
            (None, '""', "header is missing, and the body has the value ''"),
            ("a", '"b"', "header value 'a' does not match body value 'b'"),
            ("42.0", '"42"', "header value '42.0' does not match body value '42'"),  # a string is no number
            ("42", "43", "header value '42' does not match body value '43'"),
            ("042", "42", "header value '042' does not match body value '42'"),
            ("٤٢", "42", "header value is not valid: it holds characters that no header may hold"),
            ("=?base64?2aTZog==?=", "42", "header value '٤٢' does not match body value '42'"),
            ("9007199254740992", "9007199254740993",
             "header value '9007199254740992' does not match body value '9007199254740993'"),
            ("True", "true", "header value 'True' does not match body value 'true'"),
            ("1", "true", "header value '1' does not match body value 'true'"),
            # Nothing in the body: a header is not expected, and whoever trusts it would be told what is not so.
            ("x", "null", "header value 'x' has no counterpart in the body"),
            ("{}", "{}", "header value '{}' has no counterpart in the body"),
        ],
    )  # fmt: skip
    def test_what_does_not(self, header: str | None, value: str, said: str) -> None:
        headers = {} if header is None else {"mcp-param-region": header}
        with refused(f"Header mismatch: Mcp-Param-Region {said}"):
            check_params(headers, one(), Raw(f'{{"v": {value}}}'.encode()))

    def test_a_header_whose_parameter_is_not_given(self) -> None:
        with refused("Header mismatch: Mcp-Param-Region header value 'x' has no counterpart in the body"):
            check_params({"mcp-param-region": "x"}, one(), None)

    def test_a_header_that_nobody_declared(self) -> None:
        check_params({"mcp-param-other": "\xff", "mcp-param-region": "x"}, one(), raw({"v": "x"}))


@settings(deadline=None)
@given(
    name=st.text(),
    arguments=st.dictionaries(
        st.sampled_from(["v", "w"]),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    ),
)
def test_what_a_client_says_a_server_takes(name: str, arguments: dict[str, Any]) -> None:
    declared = (*one(), ParamHeader("W", ("w",)))
    body = params(name=name, arguments=arguments)
    headers = request_headers("tools/call", body, VERSION) | param_headers(declared, body["arguments"])
    check_headers(headers, "tools/call", body, VERSION)
    check_params(headers, declared, body["arguments"])
