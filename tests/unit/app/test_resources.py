"""Resources, templates, and what a URI says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpx.app import App, Context, ToolError
from mcpx.app.template import UriTemplate
from mcpx.spec import meta
from tests.unit.app.talk import Host, run


def library() -> App:
    app = App("test", "1")

    @app.resource("book://index", title="Index", mime_type="text/plain")
    def index() -> str:
        """All books."""
        return "a, b"

    @app.resource("book://cover", name="cover.png", description="A cover")
    async def cover(context: Context) -> bytes:
        return b"\x00\xff"

    @app.resource("book://lost")
    def lost() -> None:
        return None

    @app.template("book://{title}/page/{number}", mime_type="text/plain")
    def page(title: str, number: int) -> str | None:
        """One page."""
        return f"{title!r} {number!r}" if number < 100 else None

    @app.template("file:///{+path}", name="files")
    def files(path: str) -> bytes:
        return path.encode()

    @app.completion(template="file:///{+path}", argument="path")
    def paths(value: str) -> list[str]:
        return [value + "/etc"]

    return app


def test_resources_and_templates_are_listed() -> None:
    async def script(host: Host) -> None:
        assert (await host.ask("resources/list"))["resources"] == [
            {
                "uri": "book://index",
                "name": "index",
                "title": "Index",
                "description": "All books.",
                "mimeType": "text/plain",
            },
            {"uri": "book://cover", "name": "cover.png", "description": "A cover"},
            {"uri": "book://lost", "name": "lost"},
        ]
        assert (await host.ask("resources/templates/list"))["resourceTemplates"] == [
            {
                "uriTemplate": "book://{title}/page/{number}",
                "name": "page",
                "description": "One page.",
                "mimeType": "text/plain",
            },
            {"uriTemplate": "file:///{+path}", "name": "files"},
        ]

    run(library(), script)


@pytest.mark.parametrize(
    ("uri", "contents"),
    [
        ("book://index", {"mimeType": "text/plain", "text": "a, b"}),
        ("book://cover", {"blob": "AP8="}),
        ("book://war%20%26%20peace/page/7", {"mimeType": "text/plain", "text": "'war & peace' 7"}),
        ("file:///etc/hosts", {"blob": "ZXRjL2hvc3Rz"}),
    ],
)
def test_a_resource_is_read(uri: str, contents: dict) -> None:
    async def script(host: Host) -> None:
        assert await host.ask("resources/read", {"uri": uri}) == {
            "resultType": "complete",
            "contents": [{"uri": uri, **contents}],
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {meta.SERVER_INFO: {"name": "test", "version": "1"}},
        }

    run(library(), script)


@pytest.mark.parametrize(
    "uri", ["book://lost", "book://nothing", "book://a/page/many", "book://a/page/100", "file:///", "", "BOOK://index"]
)
def test_a_resource_that_there_is_not_is_an_error_and_never_empty(uri: str) -> None:
    async def script(host: Host) -> None:
        assert await host.refused("resources/read", {"uri": uri}) == {
            "code": -32602,
            "message": "Resource not found",
            "data": {"uri": uri},
        }

    run(library(), script)


@pytest.mark.parametrize("params", [{}, {"uri": 1}, {"uri": None}])
def test_a_read_without_a_uri_is_refused(params: dict) -> None:
    async def script(host: Host) -> None:
        error = await host.refused("resources/read", params)
        assert error["code"] == -32602
        assert error["message"].startswith("Invalid params: ")

    run(library(), script)


@pytest.mark.parametrize("value", [7, ["text"], {"a": 1}, "half \ud800"])
def test_a_bug_in_a_resource_is_an_error_without_its_details(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = App("test", "1")

    @app.resource("a:b")
    def r():
        return value

    async def script(host: Host) -> None:
        assert await host.refused("resources/read", {"uri": "a:b"}) == {
            "code": -32603,
            "message": "Internal error in resource a:b",
        }

    run(app, script)
    assert len(caplog.records) == 1


def test_a_tool_error_in_a_resource_is_an_error_with_its_message() -> None:
    app = App("test", "1")

    @app.resource("a:b")
    def r() -> str:
        raise ToolError("Not today.")

    async def script(host: Host) -> None:
        assert await host.refused("resources/read", {"uri": "a:b"}) == {"code": -32603, "message": "Not today."}

    run(app, script)


def test_a_name_in_a_template_is_completed() -> None:
    async def script(host: Host) -> None:
        params = {"ref": {"type": "ref/resource", "uri": "file:///{+path}"}, "argument": {"name": "path", "value": "x"}}
        assert (await host.ask("completion/complete", params))["completion"]["values"] == ["x/etc"]

    run(library(), script)


def test_mistakes_are_refused_at_once() -> None:
    app = library()

    def takes(name: str) -> str:
        return name

    def free() -> str:
        return ""

    with pytest.raises(TypeError, match="resource a:b: nothing could give its parameters"):
        app.resource("a:b")(takes)
    with pytest.raises(TypeError, match="its names are other, but the function's parameters are name"):
        app.template("a:{other}")(takes)
    with pytest.raises(TypeError, match="but the function's parameters are none"):
        app.template("a:{other}")(free)
    with pytest.raises(ValueError, match="there is a resource 'book://index' already"):
        app.resource("book://index")(free)
    with pytest.raises(ValueError, match=r"there is no 'a:\{b\}' to complete"):
        app.completion(template="a:{b}", argument="b")


# Templates.


@pytest.mark.parametrize(
    "template", ["a:b", "a:{b", "a:b}", "a:{}", "a:{b}{c}", "a:{b}/{b}", "a:{?b}", "a:{b*}", "a:{1}"]
)
def test_a_template_that_is_not_simple_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="a:"):
        UriTemplate(template)


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("a:{x}", "a:1", {"x": "1"}),
        ("a:{x}", "a:", None),
        ("a:{x}", "a:1/2", None),
        ("a:{x}", "b:1", None),
        ("a:{x}", "a:%2F%41%zz", {"x": "/A%zz"}),
        ("a:{+x}", "a:1/2", {"x": "1/2"}),
        ("a:{+x}.txt", "a:1/2.txt", {"x": "1/2"}),
        ("a:{+x}.txt", "a:.txt", None),
        ("a:{+x}.txt", "a:b.md", None),
        ("a:{x}-{y}", "a:1-2-3", {"x": "1", "y": "2-3"}),
        ("a:{x}-{y}", "a:-2", None),
        ("a:{x}-{y}", "a:1-", None),
        ("a:{x}-{y}", "a:12", None),
        ("a:{x}/{+y}/{z}!", "a:1/2/3!", {"x": "1", "y": "2", "z": "3"}),
        ("{x}:b", "a:b", {"x": "a"}),
    ],
)
def test_what_a_uri_says(template: str, uri: str, values: dict | None) -> None:
    assert UriTemplate(template).match(uri) == values


SEGMENT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10)


@settings(deadline=None)
@given(SEGMENT, SEGMENT)
def test_what_was_quoted_comes_back(first: str, second: str) -> None:
    from urllib.parse import quote

    uri = f"a:{quote(first, safe='')}/{quote(second, safe='')}"

    assert UriTemplate("a:{x}/{y}").match(uri) == {"x": first, "y": second}


def test_a_long_uri_costs_little() -> None:
    template = UriTemplate("a:" + "-".join(f"{{x{number}}}" for number in range(100)) + "!")

    assert template.match("a:" + "-" * 1_000_000) is None
