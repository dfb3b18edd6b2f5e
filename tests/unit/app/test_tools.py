"""Tools: their schemas, their arguments, what they return and how they fail."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
import trio
from msgspec import Meta

from mcpx.app import (
    App,
    Audio,
    BlobContents,
    Context,
    EmbeddedResource,
    Hints,
    Image,
    ResourceLink,
    Text,
    TextContents,
    ToolError,
)
from mcpx.errors import LocalProtocolError, RpcError
from mcpx.spec import meta
from tests.unit.app.talk import Host, run


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Tree(msgspec.Struct):
    value: int
    children: list[Tree] = []


class Row(TypedDict):
    name: str


@dataclass
class Pair:
    left: int
    right: int


def tool_app(*functions: Any, **options: Any) -> App:
    app = App("test", "1")
    for function in functions:
        app.tool(**options)(function)
    return app


def listed(app: App) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    async def script(host: Host) -> None:
        found.extend((await host.ask("tools/list"))["tools"])

    run(app, script)
    return found


def test_a_signature_becomes_a_schema() -> None:
    def search(
        query: Annotated[str, Meta(description="What to look for", min_length=1)],
        context: Context,
        limit: Annotated[int, Meta(ge=1, le=50)] = 10,
        size: Size = Size.SMALL,
        order: Literal["asc", "desc"] | None = None,
        *,
        near: Point | None = None,
    ) -> str:
        """Look for something.

        With care.
        """
        return query

    [tool] = listed(tool_app(search))

    assert tool == {
        "name": "search",
        "description": "Look for something.\n\nWith care.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for", "minLength": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
                "size": {"$ref": "#/$defs/Size", "default": "small"},
                "order": {"anyOf": [{"enum": ["asc", "desc"]}, {"type": "null"}], "default": None},
                "near": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
            },
            "required": ["query"],
            "additionalProperties": False,
            "$defs": {
                "Size": {"title": "Size", "enum": ["large", "small"]},
                "Point": {
                    "title": "Point",
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                    "required": ["x"],
                },
            },
        },
    }


def test_a_tool_without_parameters_takes_an_empty_object_only() -> None:
    def now() -> str:
        return "now"

    [tool] = listed(tool_app(now))

    assert tool == {
        "name": "now",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def test_what_is_said_beside_the_signature() -> None:
    def f() -> None:
        """Not this."""

    hints = Hints(read_only=False, destructive=True, idempotent=True, open_world=False)
    [tool] = listed(tool_app(f, name="F.2-x_y", title="Eff", description="This.", hints=hints))

    assert (tool["name"], tool["title"], tool["description"]) == ("F.2-x_y", "Eff", "This.")
    assert tool["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": True,
        "openWorldHint": False,
    }


def test_tools_are_listed_in_the_order_in_which_they_came() -> None:
    def zeta() -> None: ...
    def alpha() -> None: ...

    assert [tool["name"] for tool in listed(tool_app(zeta, alpha))] == ["zeta", "alpha"]


def test_a_decorated_function_stays_what_it_was() -> None:
    app = App("test", "1")

    @app.tool
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == 8


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Point | None, "anyOf"),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        ),
        (Row, {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}),
        (Any, None),
        (str, None),
        (None, None),
        (Image, None),
        (str | None, None),
        (list[str | Image], None),
        (tuple[Text, ...], None),
    ],
)
def test_a_return_annotation_that_is_no_content_becomes_an_output_schema(annotation: Any, schema: Any) -> None:
    def f(): ...

    f.__annotations__["return"] = annotation
    [tool] = listed(tool_app(f))
    found = tool.get("outputSchema")

    if schema == "anyOf":
        assert list(found) == ["anyOf", "$defs"]
    else:
        assert found == schema


def test_a_type_that_holds_itself_stays_a_reference() -> None:
    def grow() -> Tree:
        return Tree(1, [Tree(2)])

    app = tool_app(grow)
    [tool] = listed(app)

    assert tool["outputSchema"]["$ref"] == "#/$defs/Tree"
    assert list(tool["outputSchema"]["$defs"]) == ["Tree"]

    async def script(host: Host) -> None:
        result = await host.call("grow")
        assert result["structuredContent"] == {"value": 1, "children": [{"value": 2, "children": []}]}

    run(app, script)


# Arguments.


def test_arguments_arrive_as_they_are_typed() -> None:
    got: list[Any] = []

    async def take(point: Point, size: Size = Size.SMALL, *, tags: tuple[str, ...] = ()) -> None:
        got.append((point, size, tags))

    async def script(host: Host) -> None:
        await host.call("take", {"point": {"x": 1}, "size": "large", "tags": ["a", "b"]})
        await host.call("take", {"point": {"x": 1, "y": 2}})

    run(tool_app(take), script)
    assert got == [(Point(1), Size.LARGE, ("a", "b")), (Point(1, 2), Size.SMALL, ())]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "Object missing required field `count`"),
        ({"count": "3"}, "Expected `int`, got `str` - at `$.count`"),
        ({"count": 3.5}, "Expected `int`, got `float` - at `$.count`"),
        ({"count": None}, "Expected `int`, got `null` - at `$.count`"),
        ({"count": True}, "Expected `int`, got `bool` - at `$.count`"),
        ({"count": 0}, "Expected `int` >= 1 - at `$.count`"),
        ({"count": 3, "extra": 1}, "Object contains unknown field `extra`"),
    ],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: dict, complaint: str) -> None:
    """2026-07-28 server/tools, Error Handling: input validation is a tool execution error."""

    def f(count: Annotated[int, Meta(ge=1)]) -> str:
        raise AssertionError("called all the same")

    async def script(host: Host) -> None:
        assert await host.said("f", arguments) == (f"Invalid arguments for tool f: {complaint}", True)

    run(tool_app(f), script)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({}, "missing required field `name`"),
        ({"name": 1}, "Expected `str`, got `int`"),
        ({"name": "f", "arguments": []}, "arguments must be an object"),
        ({"name": "f", "arguments": None}, "arguments must be an object"),
        ({"name": "f", "arguments": "{}"}, "arguments must be an object"),
        ({"name": "g"}, "Unknown tool: g"),
        ({"name": "F"}, "Unknown tool: F"),
    ],
)
def test_a_malformed_call_is_a_protocol_error(params: dict, complaint: str) -> None:
    def f() -> None: ...

    async def script(host: Host) -> None:
        error = await host.refused("tools/call", params)
        assert error["code"] == -32602
        assert complaint in error["message"]

    run(tool_app(f), script)


def test_arguments_may_be_left_out() -> None:
    def f(x: int = 4) -> str:
        return str(x)

    async def script(host: Host) -> None:
        assert (await host.ask("tools/call", {"name": "f"}))["content"] == [{"type": "text", "text": "4"}]

    run(tool_app(f), script)


def test_deep_arguments_do_no_harm() -> None:
    def f(x: Any) -> str:
        return "survived"

    async def script(host: Host) -> None:
        deep = "[" * 3000 + "]" * 3000
        frame = host.begin("tools/list")
        await host.answer(frame)
        params = '{"name":"f","arguments":{"x":' + deep + '},"_meta":{"io.modelcontextprotocol/protocolVersion":'
        params += f'"{host_version()}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}'
        host.send(b'{"jsonrpc":"2.0","id":"deep","method":"tools/call","params":' + params.encode() + b"}")
        reply = await host.next()
        assert {"error", "result"} & set(reply)  # how deep a Python can go differs: refused or served, it is answered
        assert await host.said("f", {"x": 1}) == ("survived", False)

    run(tool_app(f), script)


def host_version() -> str:
    from tests.unit.app.talk import META

    return META[meta.PROTOCOL_VERSION]


# Results.


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("hi", [{"type": "text", "text": "hi"}]),
        ("", [{"type": "text", "text": ""}]),
        (None, []),
        (Text("t"), [{"type": "text", "text": "t"}]),
        (Image(b"\x00\xff"), [{"type": "image", "data": "AP8=", "mimeType": "image/png"}]),
        (Audio(b"x", "audio/ogg"), [{"type": "audio", "data": "eA==", "mimeType": "audio/ogg"}]),
        (
            ResourceLink("a:b", "b", size=3, mime_type="text/plain"),
            [{"type": "resource_link", "uri": "a:b", "name": "b", "mimeType": "text/plain", "size": 3}],
        ),
        (
            EmbeddedResource(TextContents("a:b", "x")),
            [{"type": "resource", "resource": {"uri": "a:b", "text": "x"}}],
        ),
        (
            EmbeddedResource(BlobContents("a:b", b"x", "a/b")),
            [{"type": "resource", "resource": {"uri": "a:b", "blob": "eA==", "mimeType": "a/b"}}],
        ),
        (
            ["look:", Image(b"x", "image/gif")],
            [{"type": "text", "text": "look:"}, {"type": "image", "data": "eA==", "mimeType": "image/gif"}],
        ),
        ([], []),
    ],
)
def test_content_is_returned_as_content(value: Any, content: list) -> None:
    def f():
        return value

    async def script(host: Host) -> None:
        assert await host.call("f") == {
            "resultType": "complete",
            "content": content,
            "_meta": {meta.SERVER_INFO: {"name": "test", "version": "1"}},
        }

    run(tool_app(f), script)


@pytest.mark.parametrize(
    ("annotation", "value", "structured", "text"),
    [
        (int, 5, 5, "5"),
        (float, 0.5, 0.5, "0.5"),
        (bool, True, True, "true"),
        (list[int], [1, 2], [1, 2], "[1,2]"),
        (list[str | int], ["a", 1], ["a", 1], '["a",1]'),
        (dict[str, int], {"a": 1}, {"a": 1}, '{"a":1}'),
        (Point, Point(1, 2), {"x": 1, "y": 2}, '{"x":1,"y":2}'),
        (Pair, Pair(1, 2), {"left": 1, "right": 2}, '{"left":1,"right":2}'),
        (Row, {"name": "é"}, {"name": "é"}, '{"name":"é"}'),
        (Point | None, None, None, "null"),
        (str | int, "x", "x", '"x"'),
        (Size, Size.LARGE, "large", '"large"'),
    ],
)
def test_anything_else_is_structured_and_said_as_text_as_well(
    annotation: Any, value: Any, structured: Any, text: str
) -> None:
    def f():
        return value

    f.__annotations__["return"] = annotation

    async def script(host: Host) -> None:
        result = await host.call("f")
        assert result["structuredContent"] == structured
        assert result["content"] == [{"type": "text", "text": text}]
        assert "isError" not in result

    run(tool_app(f), script)


def test_without_an_annotation_the_value_decides() -> None:
    def f(what: str):
        return {"text": "plain", "dict": {"a": 1}, "nothing": None}[what]

    app = tool_app(f)
    assert "outputSchema" not in listed(app)[0]

    async def script(host: Host) -> None:
        assert (await host.call("f", {"what": "text"}))["content"] == [{"type": "text", "text": "plain"}]
        assert (await host.call("f", {"what": "dict"}))["structuredContent"] == {"a": 1}
        assert (await host.call("f", {"what": "nothing"}))["content"] == []

    run(app, script)


# Failures.


def test_a_tool_error_is_told_to_the_model() -> None:
    async def f() -> str:
        raise ToolError("No such city: try another.")

    async def script(host: Host) -> None:
        assert await host.said("f") == ("No such city: try another.", True)

    run(tool_app(f), script)


def test_a_tool_error_out_of_a_nursery_is_one_as_well() -> None:
    async def f() -> str:
        async def fail() -> None:
            raise ToolError("inner")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            async with trio.open_nursery() as inner:
                inner.start_soon(fail)
        return "never"

    async def script(host: Host) -> None:
        assert await host.said("f") == ("inner", True)

    run(tool_app(f), script)


def test_a_tool_error_holds_no_half_characters() -> None:
    def f() -> str:
        raise ToolError("no file \udcff")

    async def script(host: Host) -> None:
        assert await host.said("f") == ("no file ?", True)

    run(tool_app(f), script)


def test_an_rpc_error_is_the_answer_itself() -> None:
    def f() -> str:
        raise RpcError(-32602, "Not like this", {"why": 1})

    async def script(host: Host) -> None:
        assert await host.refused("tools/call", {"name": "f"}) == {
            "code": -32602,
            "message": "Not like this",
            "data": {"why": 1},
        }

    run(tool_app(f), script)


def _raise_key_error() -> str:
    raise KeyError("secret detail")


def _return_wrong_type() -> Point:
    return {"x": "secret detail"}  # type: ignore[return-value]


def _return_no_content() -> str:
    return object()  # type: ignore[return-value]


def _return_half_a_character() -> str:
    return "secret detail \ud800"


def _return_nan() -> float:
    return float("nan")


def _return_what_json_has_not() -> Any:
    return object()


def _raise_a_group() -> str:
    raise ExceptionGroup("secret detail", [ToolError("one"), ToolError("two")])


@pytest.mark.parametrize(
    "function",
    [
        _raise_key_error,
        _return_wrong_type,
        _return_no_content,
        _return_half_a_character,
        _return_nan,
        _return_what_json_has_not,
        _raise_a_group,
    ],
)
def test_a_bug_is_an_error_without_its_details_and_a_traceback_in_the_log(
    function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def echo(text: str) -> str:
        return text

    app = tool_app(echo)
    app.tool(name="buggy")(function)

    async def script(host: Host) -> None:
        assert await host.said("buggy") == ("Internal error in tool buggy", True)
        assert await host.said("echo", {"text": "on"}) == ("on", False)

    run(app, script)
    [record] = caplog.records
    assert (record.name, record.levelno) == ("mcpx.app", logging.ERROR)
    assert record.getMessage() == "Internal error in tool buggy"
    assert record.exc_info is not None


# The context.


def test_progress_goes_to_the_request_with_its_token() -> None:
    async def work(context: Context) -> str:
        await context.progress(1)
        await context.progress(1.5, 3, "half")
        return "done"

    async def script(host: Host) -> None:
        id = host.begin("tools/call", {"name": "work"}, **{meta.PROGRESS_TOKEN: "7"})
        await host.answer(id)
        assert [frame.get("params") for frame in host.frames[:-1]] == [
            {"progressToken": "7", "progress": 1},
            {"progressToken": "7", "progress": 1.5, "total": 3, "message": "half"},
        ]
        await host.answer(host.begin("tools/call", {"name": "work"}, **{meta.PROGRESS_TOKEN: 7}))
        assert host.frames[-2]["params"]["progressToken"] == 7
        assert type(host.frames[-2]["params"]["progressToken"]) is int

    run(tool_app(work), script)


def test_without_a_token_there_is_no_progress() -> None:
    async def work(context: Context) -> str:
        await context.progress(1)
        return "done"

    async def script(host: Host) -> None:
        await host.call("work")
        assert len(host.frames) == 1

    run(tool_app(work), script)


@pytest.mark.parametrize("second", [1, 0.5, float("nan"), float("inf"), float("-inf")])
def test_progress_that_does_not_increase_is_a_bug(second: float) -> None:
    raised: list[Exception] = []

    async def work(context: Context) -> str:
        await context.progress(1)
        try:
            await context.progress(second)
        except LocalProtocolError as error:
            raised.append(error)
        return "done"

    async def script(host: Host) -> None:
        await host.call("work")

    run(tool_app(work), script)
    assert len(raised) == 1


def test_a_total_is_a_number() -> None:
    async def work(context: Context) -> str:
        with pytest.raises(LocalProtocolError):
            await context.progress(1, float("inf"))
        return "done"

    async def script(host: Host) -> None:
        assert await host.said("work") == ("done", False)

    run(tool_app(work), script)


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        (None, []),
        ("debug", ["debug", "info", "warning", "emergency"]),
        ("notice", ["warning", "emergency"]),
        ("emergency", ["emergency"]),
    ],
)
def test_log_messages_are_for_those_who_asked_for_their_level(level: str | None, heard: list[str]) -> None:
    async def work(context: Context) -> str:
        await context.log("debug", {"a": 1}, "worker")
        await context.log("info", "text")
        await context.log("warning", None)
        await context.log("emergency", [1])
        return "done"

    async def script(host: Host) -> None:
        await host.call("work", **({} if level is None else {meta.LOG_LEVEL: level}))
        assert [frame["params"]["level"] for frame in host.frames[:-1]] == heard
        if level == "debug":
            assert host.frames[0]["params"] == {"level": "debug", "logger": "worker", "data": {"a": 1}}
            assert host.frames[1]["params"] == {"level": "info", "data": "text"}

    run(tool_app(work), script)


def test_a_context_knows_the_metadata_of_its_request() -> None:
    def f(context: Context) -> str:
        return bytes(context.meta["traceparent"]).decode()

    async def script(host: Host) -> None:
        result = await host.call("f", traceparent="00-1-2-01")
        assert result["content"][0]["text"] == '"00-1-2-01"'

    run(tool_app(f), script)


def test_a_host_that_does_not_read_holds_up_the_tool_that_speaks_to_it() -> None:
    """Memory stays bounded: progress waits, as far as the channel's bound reaches."""
    reported: list[int] = []

    async def chatter(context: Context) -> str:
        for step in range(1, 1000):
            await context.progress(step, message="x" * 10_000)
            reported.append(step)
        return "done"

    async def script(host: Host) -> None:
        id = host.begin("tools/call", {"name": "chatter"}, **{meta.PROGRESS_TOKEN: 1})
        await trio.testing.wait_all_tasks_blocked()
        assert 10 < len(reported) < 200
        assert (await host.answer(id))["result"]["content"][0]["text"] == "done"

    run(tool_app(chatter), script)


# Mistakes in the writing of an app.


def _positional(x: int, /) -> None: ...
def _many(*xs: int) -> None: ...
def _anything(**xs: int) -> None: ...
def _bare(x) -> None: ...
def _unsayable(x: type) -> None: ...
def _returns_what_json_has_not() -> type: ...
def _mutable(x: list[int] = [1]) -> None: ...  # noqa: B006 the mistake that is tested


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (_positional, "tool _positional: parameter 'x' cannot be given by name"),
        (_many, "parameter 'xs' cannot be given by name"),
        (_anything, "parameter 'xs' cannot be given by name"),
        (_bare, "parameter 'x' needs a type annotation"),
        (_unsayable, "tool _unsayable: "),
        (_returns_what_json_has_not, "tool _returns_what_json_has_not: "),
        (_mutable, "tool _mutable: "),
    ],
)
def test_a_signature_that_cannot_be_called_with_json_is_refused_at_once(function: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        App("test", "1").tool(function)


@pytest.mark.parametrize("name", ["", "a b", "é", "a/b", "x" * 129])
def test_a_name_is_checked(name: str) -> None:
    def f() -> None: ...

    with pytest.raises(ValueError, match="is no name"):
        App("test", "1").tool(name=name)(f)


def test_a_name_can_be_had_once() -> None:
    def f() -> None: ...

    app = tool_app(f)
    with pytest.raises(ValueError, match="there is a tool 'f' already"):
        app.tool(f)


@pytest.mark.parametrize("cursor", ["", "x"])
def test_no_cursor_was_ever_given_out(cursor: str) -> None:
    async def script(host: Host) -> None:
        assert (await host.refused("tools/list", {"cursor": cursor}))["code"] == -32602

    run(tool_app(_raise_key_error), script)
