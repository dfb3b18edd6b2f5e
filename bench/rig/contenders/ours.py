"""mcpx, as the gateway uses it: the splitter, the envelope with raw payloads, shallow edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

import mcpx
from mcpx import wire
from rig.contenders.contender import NEW_ID, PREFIX, InProcess
from rig.samples import KiB

if TYPE_CHECKING:
    from collections.abc import Callable

    from rig.contenders.contender import Envelope, Worker
    from rig.samples import Sample


def ours() -> InProcess:
    return InProcess("mcpx", mcpx.__version__, {"envelope": _envelope, "rewrite": _rewrite, "full": _full})


def _reader() -> Callable[[bytes], wire.Frame]:
    splitter = wire.LineSplitter(64 * KiB * KiB)

    def read(stream: bytes) -> wire.Frame:
        message: Any
        (message,) = splitter.feed(stream)
        return wire.decode_frame(message)

    return read


def _envelope(_: Sample) -> Worker:
    read = _reader()

    def work(stream: bytes) -> Envelope:
        frame = read(stream)
        return wire.kind(frame), frame.id, frame.method

    return work


def _rewrite(sample: Sample) -> Worker:
    read = _reader()
    tools_decoder = msgspec.json.Decoder(list[dict[str, Raw]])
    name_decoder = msgspec.json.Decoder(str)
    new_id = wire.to_raw(NEW_ID)

    def renamed(item: dict[str, Raw]) -> None:
        item["name"] = wire.to_raw(PREFIX + name_decoder.decode(item["name"]))

    def work(stream: bytes) -> bytes:
        frame = read(stream)
        wire.kind(frame)
        frame.id = new_id
        if sample.holds == "call":
            params = wire.members(frame.params)
            renamed(params)
            frame.params = wire.to_raw(params)
        elif sample.holds == "tools":
            result = wire.members(frame.result)
            tools = tools_decoder.decode(result["tools"])
            for tool in tools:
                renamed(tool)
            result["tools"] = wire.to_raw(tools)
            frame.result = wire.to_raw(result)
        return wire.one_line(wire.encode(frame)) + b"\n"

    return work


def _full(_: Sample) -> Worker:
    read = _reader()
    decode = msgspec.json.Decoder().decode
    new_id = wire.to_raw(NEW_ID)

    def work(stream: bytes) -> bytes:
        frame = read(stream)
        frame.id = new_id
        if wire.kind(frame) == "request":
            frame.params = wire.to_raw(decode(frame.params or b"{}"))
        else:
            frame.result = wire.to_raw(decode(frame.result or b"{}"))
        return wire.one_line(wire.encode(frame)) + b"\n"

    return work
