"""What an app answers to whom: envelopes, metadata, concurrency, cancellation."""

from __future__ import annotations

import json
import logging

import pytest
import trio
import trio.testing

import mcpx.app.serve as serving
from mcpx.app import App, Context, run_app
from mcpx.spec import meta
from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from mcpx.transports.channel import Oversize
from mcpx.transports.memory import memory_channel_pair
from tests.support.running import run_in_virtual_time
from tests.unit.app.talk import META, Host, run, talk

INFO = {"name": "test", "version": "2"}


def small_app() -> App:
    app = App("test", "2", instructions="Be kind.")

    @app.tool
    def echo(text: str) -> str:
        return text

    return app


class Waiting:
    """A tool that waits until it is let go, and what became of each call."""

    def __init__(self, app: App) -> None:
        self.go = trio.Event()
        self.log: list[str] = []

        @app.tool
        async def wait(name: str = "x") -> str:
            self.log.append(f"{name} began")
            try:
                await self.go.wait()
            except trio.Cancelled:
                self.log.append(f"{name} cancelled")
                raise
            self.log.append(f"{name} done")
            return name


def test_discover() -> None:
    async def script(host: Host) -> None:
        assert await host.ask("server/discover") == {
            "resultType": "complete",
            "supportedVersions": [LATEST_MODERN],
            "capabilities": {"tools": {}},
            "instructions": "Be kind.",
            "ttlMs": 300_000,
            "cacheScope": "public",
            "_meta": {meta.SERVER_INFO: INFO},
        }

    run(small_app(), script)


def test_an_empty_app_can_do_nothing_and_says_so() -> None:
    async def script(host: Host) -> None:
        assert (await host.ask("server/discover"))["capabilities"] == {}
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            assert await host.refused(method) == {"code": -32601, "message": f"Method not found: {method}"}

    run(App("test", "2"), script)


def test_capabilities_follow_from_what_there_is() -> None:
    app = App("test", "2", title="Test", description="A test")

    @app.template("x:{y}")
    def template(y: str) -> str:
        return y

    @app.prompt
    async def prompt(context: Context, z: str) -> str:
        return z

    @app.completion(prompt="prompt", argument="z")
    def complete(value: str) -> list[str]:
        return []

    async def script(host: Host) -> None:
        found = await host.ask("server/discover")
        assert found["capabilities"] == {"prompts": {}, "resources": {}, "completions": {}, "logging": {}}
        assert "instructions" not in found
        assert found["_meta"][meta.SERVER_INFO] == {**INFO, "title": "Test", "description": "A test"}
        assert (await host.ask("resources/list"))["resources"] == []

    run(app, script)


@pytest.mark.parametrize("method", ["subscriptions/listen", "ping", "logging/setLevel", "initialize", "nonsense", ""])
def test_what_there_is_not_is_not_found(method: str) -> None:
    async def script(host: Host) -> None:
        assert await host.refused(method) == {"code": -32601, "message": f"Method not found: {method}"}

    run(small_app(), script)


@pytest.mark.parametrize(
    ("params", "complaint"),
    [
        (None, "`_meta` is missing, which every request must have"),
        ({}, "`_meta` is missing, which every request must have"),
        ({"_meta": None}, "Expected `object`, got `null`"),
        ({"_meta": []}, "Expected `object`, got `array`"),
        ({"_meta": {}}, "missing required field `io.modelcontextprotocol/protocolVersion`"),
        ({"_meta": {meta.CLIENT_CAPABILITIES: {}}}, "missing required field `io.modelcontextprotocol/protocolVersion`"),
        (
            {"_meta": {meta.PROTOCOL_VERSION: LATEST_MODERN}},
            "missing required field `io.modelcontextprotocol/clientCapabilities`",
        ),
        ({"_meta": {**META, meta.PROTOCOL_VERSION: 1}}, "Expected `str`, got `int`"),
        ({"_meta": {**META, meta.CLIENT_CAPABILITIES: []}}, "Expected `object`, got `array`"),
        ({"_meta": {**META, meta.CLIENT_INFO: "me"}}, "Expected `object`, got `str`"),
        ({"_meta": {**META, meta.LOG_LEVEL: "loud"}}, "Invalid enum value 'loud'"),
        ({"_meta": {**META, meta.PROGRESS_TOKEN: 1.5}}, "a progress token is a string or an integer"),
        ({"_meta": {**META, meta.PROGRESS_TOKEN: None}}, "a progress token is a string or an integer"),
        ([], "not a JSON object"),
    ],
)
def test_metadata_that_is_not_as_it_must_be_is_refused(params: object, complaint: str) -> None:
    async def script(host: Host) -> None:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        host.send(request if params is None else {**request, "params": params})
        error = (await host.answer(1))["error"]
        assert error["code"] == -32602
        assert complaint in error["message"]

    run(small_app(), script)


@pytest.mark.parametrize("version", ["1900-01-01", LATEST_LEGACY, ""])
@pytest.mark.parametrize("method", ["server/discover", "tools/call", "nonsense"])
def test_another_version_is_answered_with_those_that_are_spoken(version: str, method: str) -> None:
    async def script(host: Host) -> None:
        error = await host.refused(method, **{meta.PROTOCOL_VERSION: version})
        assert error["code"] == -32022
        assert error["data"] == {"supported": [LATEST_MODERN], "requested": version}

    run(small_app(), script)


@pytest.mark.parametrize(
    ("params", "requested"),
    [
        ({"protocolVersion": LATEST_LEGACY, "capabilities": {}}, LATEST_LEGACY),
        ({"protocolVersion": LATEST_LEGACY, "_meta": {meta.PROGRESS_TOKEN: 1}}, LATEST_LEGACY),
        ({"protocolVersion": 7}, ""),
        ({}, ""),
    ],
)
def test_a_handshake_is_answered_with_the_versions_that_are_spoken(params: dict, requested: str) -> None:
    async def script(host: Host) -> None:
        host.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        error = (await host.answer(1))["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": [LATEST_MODERN], "requested": requested}

    run(small_app(), script)


@pytest.mark.parametrize("id", [0, "0", "", "é", -1, 2**63, 2**53 + 1])
def test_an_id_comes_back_with_its_type(id: object) -> None:
    async def script(host: Host) -> None:
        host.begin("tools/list", id=id)
        frame = await host.next()
        assert frame["id"] == id
        assert type(frame["id"]) is type(id)

    run(small_app(), script)


@pytest.mark.parametrize(
    ("line", "code", "id"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"[]", -32600, None),
        (b"3", -32600, None),
        (b'{"id":5,"method":"x"}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":5}', -32600, 5),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":[1],"method":"x"}', -32600, None),
    ],
)
def test_what_is_no_request_gets_an_error_and_the_connection_goes_on(line: bytes, code: int, id: object) -> None:
    async def script(host: Host) -> None:
        host.send(line)
        frame = await host.next()
        assert frame["error"]["code"] == code
        assert frame.get("id") == id
        assert (await host.said("echo", {"text": "on"})) == ("on", False)

    run(small_app(), script)


@pytest.mark.parametrize(
    "frame",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "nonsense", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": []},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": None}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
    ],
)
def test_what_needs_no_answer_gets_none(frame: dict) -> None:
    async def script(host: Host) -> None:
        host.send(frame)
        await host.silence()

    run(small_app(), script)


def test_requests_run_at_the_same_time() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        first = host.begin("tools/call", {"name": "wait", "arguments": {"name": "one"}})
        assert await host.said("echo", {"text": "meanwhile"}) == ("meanwhile", False)
        waiting.go.set()
        assert (await host.answer(first))["result"]["content"] == [{"type": "text", "text": "one"}]

    run(app, script)


def test_an_id_in_flight_is_refused_and_may_be_used_again_afterwards() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        host.begin("tools/call", {"name": "wait"}, id="a")
        host.begin("tools/call", {"name": "echo"}, id="a")
        assert (await host.next())["error"]["code"] == -32600
        waiting.go.set()
        assert "result" in await host.next()
        host.begin("tools/list", id="a")
        assert "tools" in (await host.next())["result"]

    run(app, script)


@pytest.mark.parametrize("id", [5, "5"])
def test_a_cancelled_request_stops_and_is_never_answered(id: object) -> None:
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        host.begin("tools/call", {"name": "wait", "arguments": {"name": "one"}}, id=id)
        host.begin("tools/call", {"name": "wait", "arguments": {"name": "two"}}, id="other")
        await trio.testing.wait_all_tasks_blocked()
        host.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(waiting.log[:2]) == ["one began", "two began"]
        assert waiting.log[2:] == ["one cancelled"]
        waiting.go.set()
        assert (await host.next())["id"] == "other"
        await host.silence()
        host.begin("tools/list", id=id)  # the id is free again
        assert (await host.next())["id"] == id

    run(app, script)


def test_a_cancellation_right_behind_its_request_is_heard() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        host.begin("tools/call", {"name": "wait"}, id=1)
        host.notify("notifications/cancelled", {"requestId": 1})
        waiting.go.set()
        await host.silence()

    run(app, script)


def test_ids_of_two_types_are_cancelled_apart() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        host.begin("tools/call", {"name": "wait", "arguments": {"name": "number"}}, id=5)
        host.begin("tools/call", {"name": "wait", "arguments": {"name": "text"}}, id="5")
        host.notify("notifications/cancelled", {"requestId": "5"})
        await trio.testing.wait_all_tasks_blocked()
        waiting.go.set()
        frame = await host.next()
        assert frame["id"] == 5
        await host.silence()

    run(app, script)


def test_a_tool_that_speaks_after_its_cancellation_is_not_heard() -> None:
    app = App("test", "2")

    @app.tool
    async def stubborn(context: Context) -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await context.progress(1)
                await context.log("error", "no")
        return "never"

    async def script(host: Host) -> None:
        id = host.begin("tools/call", {"name": "stubborn"}, **{meta.PROGRESS_TOKEN: "t", meta.LOG_LEVEL: "debug"})
        await trio.testing.wait_all_tasks_blocked()
        host.notify("notifications/cancelled", {"requestId": id})
        await host.silence()

    run(app, script)


def test_a_tool_that_finishes_in_spite_of_its_cancellation_is_not_answered() -> None:
    app = small_app()
    finished: list[str] = []

    @app.tool
    async def thorough() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        finished.append("yes")
        return "done"

    async def script(host: Host) -> None:
        id = host.begin("tools/call", {"name": "thorough"})
        await trio.testing.wait_all_tasks_blocked()
        host.notify("notifications/cancelled", {"requestId": id})
        await trio.sleep(2)
        assert finished == ["yes"]
        await host.silence()

    run(app, script)


def test_too_many_requests_at_once_are_refused_and_cancellations_still_get_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving, "MAX_IN_FLIGHT", 3)
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        ids = [host.begin("tools/call", {"name": "wait"}) for _ in range(3)]
        assert await host.refused("tools/list") == {"code": -32603, "message": "More than 3 requests are in flight"}
        host.notify("notifications/cancelled", {"requestId": ids[0]})
        await trio.testing.wait_all_tasks_blocked()
        assert "tools" in await host.ask("tools/list")
        waiting.go.set()

    run(app, script)


def test_leaving_the_channel_ends_what_is_in_flight() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def script(host: Host) -> None:
        host.begin("tools/call", {"name": "wait"})
        await trio.testing.wait_all_tasks_blocked()

    run(app, script)
    assert waiting.log == ["x began", "x cancelled"]


def test_the_other_end_closing_ends_the_app() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def main() -> None:
        near, far = memory_channel_pair()
        with near, far:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_app, app, far)
                Host(near).begin("tools/call", {"name": "wait"})
                await trio.testing.wait_all_tasks_blocked()
                near.close()

    run_in_virtual_time(main)
    assert waiting.log == ["x began", "x cancelled"]


class Broken:
    """A channel with what is said in advance, which breaks after that."""

    def __init__(self, *messages: bytes | Oversize) -> None:
        self.messages = [*messages]
        self.sent: list[bytes] = []

    async def receive(self) -> list[bytes | Oversize]:
        await trio.lowlevel.checkpoint()
        if not self.messages:
            raise trio.BrokenResourceError
        return [self.messages.pop(0)]

    def send_nowait(self, message: bytes) -> None:
        self.sent.append(message)

    async def send(self, message: bytes) -> None:
        self.sent.append(message)

    async def flush(self) -> None: ...


def test_a_channel_that_breaks_ends_the_app(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    trio.run(run_app, small_app(), Broken())

    assert "The connection to the app test broke." in caplog.text


def test_a_message_over_the_limit_of_a_channel_is_refused() -> None:
    channel = Broken(Oversize(10**9, b"{", b"}"))
    trio.run(run_app, small_app(), channel)

    [line] = channel.sent
    assert json.loads(line)["error"] == {"code": -32600, "message": "The message is too large: 1000000000 bytes"}


def test_two_channels_of_one_app_are_two_conversations() -> None:
    app = small_app()
    waiting = Waiting(app)

    async def main() -> None:
        async with talk(app) as one, talk(app) as two:
            one.begin("tools/call", {"name": "wait", "arguments": {"name": "one"}}, id=1)
            two.begin("tools/call", {"name": "wait", "arguments": {"name": "two"}}, id=1)
            await trio.testing.wait_all_tasks_blocked()
            two.notify("notifications/cancelled", {"requestId": 1})
            await trio.testing.wait_all_tasks_blocked()
            waiting.go.set()
            assert (await one.answer(1))["result"]["content"][0]["text"] == "one"
            await two.silence()

    run_in_virtual_time(main)
