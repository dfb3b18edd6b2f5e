"""The limit: msgspec with nothing around it, told beforehand what comes, field by field.

It decodes no part twice, tells no kinds apart and loses every field that it was not told of, so that no gateway can
reach it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rig.contenders.contender import NEW_ID, PREFIX, InProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from rig.contenders.contender import Envelope, Worker
    from rig.samples import Sample


def limit() -> InProcess:
    return InProcess("msgspec", msgspec.__version__, {"envelope": _envelope, "rewrite": _rewrite, "full": _full})


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


def _envelope(sample: Sample) -> Worker:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(SHAPES[sample.holds]["envelope"]).decode

    def work_request(stream: bytes) -> Envelope:
        line, _ = stream.split(b"\n")
        frame = decode(line)
        return "request", frame.id, frame.method

    def work_result(stream: bytes) -> Envelope:
        line, _ = stream.split(b"\n")
        return "result", decode(line).id, None

    return work_request if sample.holds == "call" else work_result


def _rewrite(sample: Sample) -> Worker:
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


def _full(sample: Sample) -> Worker:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(SHAPES[sample.holds]["full"]).decode
    encode = msgspec.json.Encoder().encode_lines

    def work(stream: bytes) -> bytes:
        line, _ = stream.split(b"\n")
        frame = decode(line)
        frame.id = NEW_ID
        return encode((frame,))

    return work
