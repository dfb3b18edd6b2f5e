"""Prompts and the completion of their arguments."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from mcpx.app import App, Context, Image, Message, ResourceLink, ToolError
from mcpx.spec import meta
from tests.unit.app.talk import Host, run


def greeting_app() -> App:
    app = App("test", "1")

    @app.prompt(title="Greet")
    def greet(
        name: Annotated[str, Meta(description="Whom")], context: Context, style: Literal["plain", "warm"] = "plain"
    ) -> str:
        """Greet someone."""
        return f"{style}: {name}"

    @app.prompt
    async def count(times: int, loud: bool = False) -> str:
        return f"{times!r} {loud!r}"

    @app.completion(prompt="greet", argument="style")
    def styles(value: str) -> list[str]:
        return [style for style in ("plain", "warm") if style.startswith(value)]

    @app.completion(prompt="greet", argument="name")
    async def names(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value}{number} {arguments.get('style', '')}" for number in range(150)]

    return app


def test_prompts_are_listed_with_their_arguments() -> None:
    async def script(host: Host) -> None:
        assert await host.ask("prompts/list") == {
            "resultType": "complete",
            "prompts": [
                {
                    "name": "greet",
                    "title": "Greet",
                    "description": "Greet someone.",
                    "arguments": [
                        {"name": "name", "description": "Whom", "required": True},
                        {"name": "style", "required": False},
                    ],
                },
                {
                    "name": "count",
                    "arguments": [{"name": "times", "required": True}, {"name": "loud", "required": False}],
                },
            ],
            "ttlMs": 300_000,
            "cacheScope": "public",
            "_meta": {meta.SERVER_INFO: {"name": "test", "version": "1"}},
        }

    run(greeting_app(), script)


def test_a_prompt_is_got() -> None:
    async def script(host: Host) -> None:
        result = await host.ask("prompts/get", {"name": "greet", "arguments": {"name": "Ada", "style": "warm"}})
        assert result == {
            "resultType": "complete",
            "description": "Greet someone.",
            "messages": [{"role": "user", "content": {"type": "text", "text": "warm: Ada"}}],
            "_meta": {meta.SERVER_INFO: {"name": "test", "version": "1"}},
        }

    run(greeting_app(), script)


def test_numbers_and_booleans_are_read_out_of_text() -> None:
    async def script(host: Host) -> None:
        result = await host.ask("prompts/get", {"name": "count", "arguments": {"times": "3", "loud": "true"}})
        assert result["messages"][0]["content"]["text"] == "3 True"

    run(greeting_app(), script)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({}, "missing required field `name`"),
        ({"name": "nobody"}, "Unknown prompt: nobody"),
        ({"name": "greet"}, "Invalid arguments for prompt greet: Object missing required field `name`"),
        ({"name": "greet", "arguments": {"name": "x", "style": "rude"}}, "Invalid enum value 'rude'"),
        ({"name": "greet", "arguments": {"name": "x", "age": "7"}}, "unknown field `age`"),
        ({"name": "greet", "arguments": {"name": 7}}, "Expected `str`, got `int`"),
        ({"name": "greet", "arguments": []}, "Expected `object`, got `array`"),
        ({"name": "count", "arguments": {"times": "many"}}, "Expected `int`, got `str`"),
    ],
)
def test_a_get_that_does_not_fit_is_refused(params: dict, complaint: str) -> None:
    async def script(host: Host) -> None:
        error = await host.refused("prompts/get", params)
        assert error["code"] == -32602
        assert complaint in error["message"]

    run(greeting_app(), script)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("hi", [("user", "text")]),
        (Message("hi", "assistant"), [("assistant", "text")]),
        (Image(b"x"), [("user", "image")]),
        (["one", Message(ResourceLink("a:b", "b")), Message("two", "assistant")], None),
        ([], []),
    ],
)
def test_what_a_prompt_may_return(value: Any, said: list | None) -> None:
    app = App("test", "1")

    @app.prompt
    def p():
        return value

    async def script(host: Host) -> None:
        result = await host.ask("prompts/get", {"name": "p"})
        found = [(message["role"], message["content"]["type"]) for message in result["messages"]]
        assert found == (
            said if said is not None else [("user", "text"), ("user", "resource_link"), ("assistant", "text")]
        )
        assert "description" not in result

    run(app, script)


@pytest.mark.parametrize("value", [None, 7, [7], [["nested"]], Message(7), "half \udfff"])  # type: ignore[arg-type]
def test_a_bug_in_a_prompt_is_an_error_without_its_details(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = App("test", "1")

    @app.prompt
    def p():
        return value

    async def script(host: Host) -> None:
        assert await host.refused("prompts/get", {"name": "p"}) == {
            "code": -32603,
            "message": "Internal error in prompt p",
        }
        assert "prompts" in await host.ask("prompts/list")

    run(app, script)
    assert [record.getMessage() for record in caplog.records] == ["Internal error in prompt p"]


def test_a_tool_error_in_a_prompt_is_an_error_with_its_message() -> None:
    app = App("test", "1")

    @app.prompt
    def p() -> str:
        raise ToolError("Not today.")

    async def script(host: Host) -> None:
        assert await host.refused("prompts/get", {"name": "p"}) == {"code": -32603, "message": "Not today."}

    run(app, script)


# Completion.


def asked(argument: str, value: str, **context: Any) -> dict[str, Any]:
    return {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": argument, "value": value}, **context}


def test_an_argument_is_completed() -> None:
    async def script(host: Host) -> None:
        found = await host.ask("completion/complete", asked("style", "w"))
        assert found["completion"] == {"values": ["warm"], "total": 1, "hasMore": False}
        assert found["resultType"] == "complete"
        assert "ttlMs" not in found

    run(greeting_app(), script)


def test_at_most_a_hundred_are_given_and_the_other_arguments_are_known() -> None:
    async def script(host: Host) -> None:
        context = {"arguments": {"style": "warm"}}
        found = (await host.ask("completion/complete", asked("name", "A", context=context)))["completion"]
        assert found["values"] == [f"A{number} warm" for number in range(100)]
        assert (found["total"], found["hasMore"]) == (150, True)

    run(greeting_app(), script)


def test_an_argument_that_nothing_completes_has_no_suggestions() -> None:
    async def script(host: Host) -> None:
        params = {"ref": {"type": "ref/prompt", "name": "count"}, "argument": {"name": "times", "value": "1"}}
        found = await host.ask("completion/complete", params)
        assert found["completion"] == {"values": [], "total": 0, "hasMore": False}

    run(greeting_app(), script)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        ({}, "missing required field"),
        (
            {"ref": {"type": "ref/tool", "name": "x"}, "argument": {"name": "a", "value": ""}},
            "Invalid value 'ref/tool'",
        ),
        ({"ref": {"type": "ref/prompt"}, "argument": {"name": "a", "value": ""}}, "missing required field `name`"),
        (
            {"ref": {"type": "ref/prompt", "name": "nobody"}, "argument": {"name": "a", "value": ""}},
            "Unknown prompt: nobody",
        ),
        (
            {"ref": {"type": "ref/resource", "uri": "a:{b}"}, "argument": {"name": "b", "value": ""}},
            "Unknown resource template: a:{b}",
        ),
        (asked("age", ""), "Unknown argument: age"),
        (asked("style", 7), "Expected `str`, got `int`"),  # type: ignore[arg-type]
        (asked("style", "", context={"arguments": {"a": 1}}), "Expected `str`, got `int`"),
    ],
)
def test_a_completion_of_what_there_is_not_is_refused(params: dict, complaint: str) -> None:
    async def script(host: Host) -> None:
        error = await host.refused("completion/complete", params)
        assert error["code"] == -32602
        assert complaint in error["message"]

    run(greeting_app(), script)


@pytest.mark.parametrize("value", [None, "text", [1], ["half \udfff"]])
def test_a_bug_in_a_completion_is_an_error_without_its_details(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = App("test", "1")

    @app.prompt
    def greet(x: str) -> str:
        return x

    @app.completion(prompt="greet", argument="x")
    def complete(context: Context, value: str) -> Any:
        return result

    result = value

    async def script(host: Host) -> None:
        assert await host.refused("completion/complete", asked("x", "")) == {
            "code": -32603,
            "message": "Internal error in completion of x for greet",
        }

    run(app, script)
    assert len(caplog.records) == 1


def test_a_completion_is_of_an_argument_that_there_is() -> None:
    app = greeting_app()

    def complete(value: str) -> list[str]:
        return []

    with pytest.raises(ValueError, match="there is no 'nobody' to complete"):
        app.completion(prompt="nobody", argument="x")
    with pytest.raises(ValueError, match="completion of age for greet: there is no such argument, only name, style"):
        app.completion(prompt="greet", argument="age")(complete)
    with pytest.raises(ValueError, match="completion of style for greet is there already"):
        app.completion(prompt="greet", argument="style")(complete)


@pytest.mark.parametrize("names", ["x", "value, x", ""])
def test_a_completion_function_takes_what_it_is_given(names: str) -> None:
    scope: dict[str, Any] = {}
    exec(f"def complete({', '.join(name + ': str' for name in names.split(', ') if name)}): ...", scope)
    with pytest.raises(TypeError, match="its parameters are 'value'"):
        greeting_app().completion(prompt="count", argument="times")(scope["complete"])
