"""Libraries that decode all of a frame or none of it: the standard library's ``json``, and orjson."""

from __future__ import annotations

import json
import platform
from typing import TYPE_CHECKING, Any

from rig.contenders.contender import NEW_ID, PREFIX, InProcess
from rig.samples import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from rig.contenders.contender import Envelope, Worker
    from rig.samples import Sample


def standard_library() -> InProcess:
    return _whole("json", platform.python_version(), json.loads, lambda frame: encoded(frame) + b"\n")


def with_orjson() -> InProcess:
    """Raises ``ModuleNotFoundError`` where orjson is not installed."""
    import orjson

    append_newline = orjson.OPT_APPEND_NEWLINE
    return _whole("orjson", orjson.__version__, orjson.loads, lambda frame: orjson.dumps(frame, option=append_newline))


def _whole(name: str, version: str, load: Callable[[bytes], Any], line_of: Callable[[Any], bytes]) -> InProcess:
    """A contender with a function from bytes to a frame, and one from a frame to a line."""

    def envelope(_: Sample) -> Worker:
        def work(stream: bytes) -> Envelope:
            line, _ = stream.split(b"\n")
            frame = load(line)
            if "method" in frame:
                return "request" if "id" in frame else "notification", frame.get("id"), frame["method"]
            return "result" if "result" in frame else "error", frame.get("id"), None

        return work

    def rewrite(sample: Sample) -> Worker:
        def work(stream: bytes) -> bytes:
            line, _ = stream.split(b"\n")
            frame = load(line)
            frame["id"] = NEW_ID
            if sample.holds == "call":
                frame["params"]["name"] = PREFIX + frame["params"]["name"]
            elif sample.holds == "tools":
                for tool in frame["result"]["tools"]:
                    tool["name"] = PREFIX + tool["name"]
            return line_of(frame)

        return work

    def full(_: Sample) -> Worker:
        def work(stream: bytes) -> bytes:
            line, _ = stream.split(b"\n")
            frame = load(line)
            frame["id"] = NEW_ID
            return line_of(frame)

        return work

    return InProcess(name, version, {"envelope": envelope, "rewrite": rewrite, "full": full})
