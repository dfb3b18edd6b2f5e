"""mcpx, as the gateway uses it: the splitter, the envelope with raw payloads, shallow edits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

import mcpx
from mcpx import wire
from mcpx.wire import NULL
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
    read_page = msgspec.json.Decoder(dict[str, Raw]).decode
    read_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
    read_name = msgspec.json.Decoder(str).decode
    new_id = wire.to_raw(NEW_ID)

    def renamed(item: dict[str, Raw]) -> None:
        item["name"] = wire.to_raw(PREFIX + read_name(item["name"]))

    def call(stream: bytes) -> bytes:
        frame = read(stream)
        wire.kind(frame)
        params = wire.members(frame.params)
        renamed(params)
        return _line(wire.encode_request(NEW_ID, frame.method or "", params))

    def tools(stream: bytes) -> bytes:
        frame = read(stream)
        wire.kind(frame)
        page = read_page(frame.result or NULL)
        items = read_tools(page["tools"])
        for item in items:
            renamed(item)
        page["tools"] = wire.to_raw(items)
        return _line(wire.encode_result(new_id, wire.to_raw(page)))

    def result(stream: bytes) -> bytes:
        frame = read(stream)
        wire.kind(frame)
        return _line(wire.encode_result(new_id, frame.result or NULL))

    return {"call": call, "tools": tools, "result": result}[sample.holds]


def _line(message: bytes) -> bytes:
    return wire.one_line(message) + b"\n"


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
        return _line(wire.encode(frame))

    return work
