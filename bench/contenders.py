"""Who takes part in the framing benchmark, and the jobs they do.

One more contender is one more object in ``CONTENDERS``: a name, a version, and for each job and sample what comes
out of it (``once``) and a timer. One that runs in another process times itself there.
"""

from __future__ import annotations

import itertools
import json
import platform
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType
from rig.samples import KiB, encoded

import mcpx
from mcpx import wire

if TYPE_CHECKING:
    from rig.samples import Sample

NEW_ID = 4711
PREFIX = "files__"  # what a gateway puts before the names of one server's tools


Envelope = tuple[str, Any, Any]  # kind, id, method
Worker = Callable[[bytes], Any]  # one frame's bytes in; an Envelope out, or the bytes of a line
Timer = Callable[[int], float]  # repetitions in, seconds out

JOBS = {
    "envelope": "find the line, say its kind, id and method",
    "rewrite": "the same, then another id, other names, and out as a line",
    "full": "decode all of it, another id, and out as a line",
}


class Contender(Protocol):
    """Someone who does the jobs. One that lives in another process times itself there and returns the seconds."""

    name: str
    version: str

    def once(self, job: str, sample: Sample) -> Any:
        """What comes out, for comparison with the others."""
        ...

    def timer(self, job: str, sample: Sample) -> Timer: ...


class InProcess:
    """A contender in this process: a function for each job, which makes the worker for a sample."""

    def __init__(self, name: str, version: str, *jobs: Callable[[Sample], Worker]) -> None:
        self.name = name
        self.version = version
        self._jobs = dict(zip(JOBS, jobs, strict=True))

    def once(self, job: str, sample: Sample) -> Any:
        return self._jobs[job](sample)(sample.stream)

    def timer(self, job: str, sample: Sample) -> Timer:
        work, stream = self._jobs[job](sample), sample.stream

        def run(repetitions: int) -> float:
            start = time.perf_counter()
            for _ in itertools.repeat(None, repetitions):
                work(stream)
            return time.perf_counter() - start

        return run


# mcpx, as the gateway uses it: splitter, envelope with raw payloads, shallow edits.


def _mcpx_reader() -> Callable[[bytes], wire.Frame]:
    splitter = wire.LineSplitter(64 * KiB * KiB)

    def read(stream: bytes) -> wire.Frame:
        message: Any
        (message,) = splitter.feed(stream)
        return wire.decode_frame(message)

    return read


def _mcpx_envelope(_: Sample) -> Worker:
    read = _mcpx_reader()

    def work(stream: bytes) -> Envelope:
        frame = read(stream)
        return wire.kind(frame), frame.id, frame.method

    return work


def _mcpx_rewrite(sample: Sample) -> Worker:
    read = _mcpx_reader()
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


def _mcpx_full(_: Sample) -> Worker:
    read = _mcpx_reader()
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


# The standard library, which knows no half decoding.


def _json_envelope(_: Sample) -> Worker:
    def work(stream: bytes) -> Envelope:
        line, _ = stream.split(b"\n")
        frame = json.loads(line)
        if "method" in frame:
            return "request" if "id" in frame else "notification", frame.get("id"), frame["method"]
        return "result" if "result" in frame else "error", frame.get("id"), None

    return work


def _json_rewrite(sample: Sample) -> Worker:
    def work(stream: bytes) -> bytes:
        line, _ = stream.split(b"\n")
        frame = json.loads(line)
        frame["id"] = NEW_ID
        if sample.holds == "call":
            frame["params"]["name"] = PREFIX + frame["params"]["name"]
        elif sample.holds == "tools":
            for tool in frame["result"]["tools"]:
                tool["name"] = PREFIX + tool["name"]
        return encoded(frame) + b"\n"

    return work


def _json_full(_: Sample) -> Worker:
    def work(stream: bytes) -> bytes:
        line, _ = stream.split(b"\n")
        frame = json.loads(line)
        frame["id"] = NEW_ID
        return encoded(frame) + b"\n"

    return work


# The limit: msgspec with nothing around it, told beforehand what comes, field by field. It decodes no part twice, tells
# no kinds apart and loses every field that it was not told of, so that no gateway can reach it.


class Shape(msgspec.Struct, gc=False, rename="camel"):
    """A struct of just the fields that come."""


class EnvelopeShape(Shape):
    jsonrpc: str
    id: int


class RawRequest(EnvelopeShape):
    method: str
    params: Raw


class RawResponse(EnvelopeShape):
    result: Raw


class NamedCall(Shape):
    name: str
    arguments: Raw
    meta: Raw = msgspec.field(name="_meta")


class NamedRequest(EnvelopeShape):
    method: str
    params: NamedCall


class NamedTool(Shape):
    name: str
    title: Raw
    description: Raw
    input_schema: Raw
    annotations: Raw


class NamedTools(Shape):
    tools: list[NamedTool]
    meta: Raw = msgspec.field(name="_meta")


class NamedResponse(EnvelopeShape):
    result: NamedTools


class Arguments(Shape):
    path: str
    pattern: str


class Token(Shape):
    progress_token: int


class FullCall(Shape):
    name: str
    arguments: Arguments
    meta: Token = msgspec.field(name="_meta")


class FullRequest(EnvelopeShape):
    method: str
    params: FullCall


class Text(Shape, tag_field="type", tag="text"):
    text: str


class Image(Shape, tag_field="type", tag="image"):
    data: str
    mime_type: str


class Hit(Shape):
    path: str
    line: int
    score: float


class Hits(Shape):
    hits: list[Hit]


class Result(Shape):
    content: list[Text | Image]
    is_error: bool
    structured_content: Hits | UnsetType = UNSET


class FullResponse(EnvelopeShape):
    result: Result


class Property(Shape):
    type: str
    description: str


class Schema(Shape):
    type: str
    properties: dict[str, Property]
    required: list[str]
    additional_properties: bool


class Hints(Shape):
    read_only_hint: bool
    open_world_hint: bool


class FullTool(Shape):
    name: str
    title: str
    description: str
    input_schema: Schema
    annotations: Hints


class Note(Shape):
    note: str


class FullTools(Shape):
    tools: list[FullTool]
    meta: Note = msgspec.field(name="_meta")


class FullListResponse(EnvelopeShape):
    result: FullTools


# what a sample holds -> its shape for each job
SHAPES: dict[str, dict[str, type[Any]]] = {
    "call": {"envelope": RawRequest, "rewrite": NamedRequest, "full": FullRequest},
    "result": {"envelope": RawResponse, "rewrite": RawResponse, "full": FullResponse},
    "tools": {"envelope": RawResponse, "rewrite": NamedResponse, "full": FullListResponse},
}


def _limit_envelope(sample: Sample) -> Worker:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(SHAPES[sample.holds]["envelope"]).decode

    def work_request(stream: bytes) -> Envelope:
        line, _ = stream.split(b"\n")
        frame = decode(line)
        return "request", frame.id, frame.method

    def work_result(stream: bytes) -> Envelope:
        line, _ = stream.split(b"\n")
        return "result", decode(line).id, None

    return work_request if sample.holds == "call" else work_result


def _limit_rewrite(sample: Sample) -> Worker:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(SHAPES[sample.holds]["rewrite"]).decode
    encode = msgspec.json.Encoder().encode_lines

    def work(stream: bytes) -> bytes:
        line, _ = stream.split(b"\n")
        frame = decode(line)
        frame.id = NEW_ID
        if sample.holds == "call":
            frame.params.name = PREFIX + frame.params.name
        elif sample.holds == "tools":
            for tool in frame.result.tools:
                tool.name = PREFIX + tool.name
        return encode((frame,))

    return work


def _limit_full(sample: Sample) -> Worker:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(SHAPES[sample.holds]["full"]).decode
    encode = msgspec.json.Encoder().encode_lines

    def work(stream: bytes) -> bytes:
        line, _ = stream.split(b"\n")
        frame = decode(line)
        frame.id = NEW_ID
        return encode((frame,))

    return work


def _split(_: Sample) -> Worker:
    return lambda stream: stream.split(b"\n")


REFERENCE = InProcess("json", platform.python_version(), _json_envelope, _json_rewrite, _json_full)
FLOOR = InProcess("split", platform.python_version(), _split, _split, _split)
CONTENDERS: list[Contender] = [
    InProcess("mcpx", mcpx.__version__, _mcpx_envelope, _mcpx_rewrite, _mcpx_full),
    REFERENCE,
    InProcess("msgspec", msgspec.__version__, _limit_envelope, _limit_rewrite, _limit_full),
    FLOOR,
]
