"""Kinds 4, 5 and 6: long lines, noise, and bytes that are not clean."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from mcpx.spec.revisions import LATEST_LEGACY, LATEST_MODERN
from tests.support.scripted import TOOL, noise

if TYPE_CHECKING:
    from tests.support.fake_down import Host
    from tests.support.stage import Stage

MiB = 1 << 20


@pytest.mark.deadline(60)
async def test_pain_04_results_of_any_size_pass(stage: Stage) -> None:
    """Results around 64 KiB, of a megabyte, of 20 and 32, and arguments of 8, pass; the work grows with the size."""
    sizes = [65_535, 65_536, 65_537, MiB, 20 * MiB, 32 * MiB]
    tools = [{**TOOL, "name": f"big{size}"} for size in sizes]
    one = stage.upstream("one", tools=[TOOL, *tools], calls={f"big{size}": [{"big": size}] for size in sizes})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        took: dict[int, float] = {}
        for size in [*sizes, *[MiB, 32 * MiB] * 2]:
            started = time.monotonic()
            result = (await host.call(f"one__big{size}", within=30)).result
            took[size] = min(time.monotonic() - started, took.get(size, 60))
            assert result["content"][0]["text"] == "y" * size
        assert took[32 * MiB] / took[MiB] < 200  # linear is 32; quadratic would be a thousand
        text = "z" * (8 * MiB)
        answer = (await host.call("one__echo", {"text": text}, within=30)).result["content"][0]["text"]
        assert answer == "echo " + json.dumps({"text": text})


async def _works(host: Host, revision: str = LATEST_LEGACY) -> None:
    await host.open(revision)
    assert await host.names() == ["one__echo"]
    assert (await host.call("one__echo", {"n": 1})).result["content"][0]["text"] == 'echo {"n": 1}'


NOISE = [
    "hello\n",
    "\n",
    "   \n",
    "\t\r\n",
    "[1]\n",
    '"x"\n',
    "{}\n",
    "7\n",
    "null\n",
    '{"jsonrpc":"1.0"}\n',
    "]\n",
    "{\n",
]


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST_MODERN])
async def test_pain_05_noise_is_skipped(stage: Stage, revision: str) -> None:
    """Banners, blank lines, and JSON that is no message, at the start and before an answer, are not in the way."""
    banner = [{"stdout": line} for line in NOISE]
    one = stage.upstream(
        "one",
        revision,
        onStart=banner,
        calls={"echo": [*banner, {"answer": True}]},
        on={"tools/list": [*banner, {"answer": True}]},
    )
    async with stage.mcpx(one) as host:
        await _works(host)


async def test_pain_05_noise_is_shown_and_counted(stage: Stage) -> None:
    """The first few lines are in the log, shortened, with the server's name; a flood of them is not."""
    long = "noise " + "n" * 5000 + "\n"
    many = [{"stdout": f"again {number}\n"} for number in range(500)]
    one = stage.upstream("one", onStart=[{"stdout": "hello world\n"}, {"stdout": long}, *many])
    async with stage.mcpx(one) as host:
        await _works(host)
        assert "one" in await host.logged("hello world")
        await host.close()
    assert len(host.log) < 20_000
    assert "n" * 1000 not in host.log


async def test_pain_05_a_long_line_of_noise_is_skipped(stage: Stage) -> None:
    """Ten megabytes of noise in one line cost that line only."""
    one = stage.upstream("one", calls={"echo": [{"stdout": "x" * (10 * MiB) + "\n"}, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await _works(host)


async def test_pain_05_noise_on_the_line_of_the_first_reply(stage: Stage) -> None:
    """The reply behind a banner without a newline is read: nothing waits for the probe, or for the call's limit."""
    banner = {"stdout": "Starting... "}
    one = stage.upstream("one", onStart=[banner], calls={"echo": [banner, {"answer": True}]})
    async with stage.mcpx(one, limits={"probeDelay": 20}) as host:
        await _works(host)


async def test_pain_06_line_ends_and_marks_are_tolerated(stage: Stage) -> None:
    """CRLF, a byte order mark at the beginning, empty lines: from an upstream, and from a host."""
    one = stage.upstream("one", crlf=True, onStart=[{"stdout": noise(b"\xef\xbb\xbf")}])
    async with stage.mcpx(one) as host:
        await host.send_raw(b"\xef\xbb\xbf")
        asked, frame = host.prepare("ping", id="crlf")
        await host.send_raw(json.dumps(frame).encode() + b"\r\n\r\n\n")
        assert (await asked.wait()).result == {}
        await _works(host)
    assert one.methods()[:2] == ["server/discover", "initialize"]


AWKWARD = "a\u2028b\u2029c\u0085d\u000be\u007f\u00e9\U0001f600"


async def test_pain_06_lines_end_at_a_newline_only(stage: Stage) -> None:
    """Separators of other kinds inside a message, raw, split nothing, in either direction."""
    text = json.dumps(AWKWARD, ensure_ascii=False).replace("\\u000b", "\\u000B")
    one = stage.upstream("one", calls={"echo": [{"raw": f'{{"content":[{{"type":"text","text":{text}}}]}}'}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        asked, frame = host.prepare("tools/call", {"name": "one__echo", "arguments": {"t": AWKWARD}})
        await host.send_raw(json.dumps(frame, ensure_ascii=False).encode() + b"\n")
        assert (await asked.wait()).result["content"][0]["text"] == AWKWARD
    assert one.received("tools/call")[0].frame["params"]["arguments"] == {"t": AWKWARD}


async def test_pain_06_invalid_bytes_fail_their_line_only(stage: Stage) -> None:
    """A line of an upstream that is not UTF-8 is skipped, even inside a message's string; the connection goes on."""
    bad = [
        {"stdout": noise(b"latin-1: \xe9\n")},
        {"stdout": noise(b'{"jsonrpc":"2.0","method":"x","params":{"a":"\xff"}}\n')},
        {"stdout": noise(b"\xc3\n")},
    ]
    one = stage.upstream("one", calls={"echo": [*bad, {"answer": True}]})
    async with stage.mcpx(one) as host:
        await _works(host)


async def test_pain_06_an_answer_with_invalid_bytes_hangs_nobody(stage: Stage) -> None:
    """An answer that is not UTF-8 is skipped like noise; its request ends, with its idle limit at the latest."""
    reply = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xe9"}]}}\n'
    one = stage.upstream("one", entry={"limits": {"callTimeout": {"idle": 1.5}}})
    async with stage.mcpx(one) as host:
        await _works(host)
        ident = one.received("tools/call")[0].frame["id"] + 1
        one_reply = noise(reply.replace(b"ID", str(ident).encode()))
        await one.set(calls={"echo": [{"stdout": one_reply}]})
        error = (await host.call("one__echo")).error
        assert error["code"] == -32603
        assert error["data"]["server"] == "one"


async def test_pain_06_half_a_surrogate_pair_survives(stage: Stage) -> None:
    """\\ud800 in JSON, as it is or as U+FFFD, goes through both ways, and costs nothing else."""
    raw = '{"content":[{"type":"text","text":"<\\ud800>"}]}'
    one = stage.upstream("one", calls={"echo": [{"raw": raw}]})
    async with stage.mcpx(one) as host:
        await host.open(LATEST_LEGACY)
        await host.names()
        asked, frame = host.prepare("tools/call", {"name": "one__echo", "arguments": {"t": "\ud800"}})
        await host.send(frame)
        assert (await asked.wait()).result["content"][0]["text"] in ("<\ud800>", "<\ufffd>")
        assert (await host.request("ping")).result == {}
    assert one.received("tools/call")[0].frame["params"]["arguments"]["t"] in ("\ud800", "\ufffd")


async def test_pain_06_messages_may_be_cut_anywhere(stage: Stage) -> None:
    """A host that writes byte by byte, or several messages at once, is understood."""
    async with stage.mcpx(stage.upstream("one")) as host:
        await host.initialize(LATEST_LEGACY)
        frame = json.dumps({"jsonrpc": "2.0", "id": "ü", "method": "ping"}, ensure_ascii=False).encode() + b"\n"
        asked = host.expect(json.loads(frame), LATEST_LEGACY)
        for byte in frame:
            await host.send_raw(bytes([byte]))
        await asked.wait()
        prepared = [host.prepare("ping") for _ in range(50)]
        await host.send_raw(b"".join(json.dumps(frame).encode() + b"\n" for _, frame in prepared))
        for asked, _ in prepared:
            assert (await asked.wait()).result == {}
