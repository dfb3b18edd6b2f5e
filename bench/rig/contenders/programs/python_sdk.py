"""The official Python SDK's message classes, as a contender of the framing benchmark: see ``remote`` for what is said.

It runs in the SDK's own environment, as ``python_sdk.py envelope`` or ``python_sdk.py typed``:

- ``envelope``: the JSON-RPC classes alone, as the SDK's stdio transports read and write; params and results are dicts;
- ``typed``: params and results are the classes of their methods as well, as in a session. A session checks each twice
  and adds members that have a default; here each is checked once, and what was not said stays unsaid.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_types import CallToolRequest, CallToolResult, ListToolsResult
from mcp_types.jsonrpc import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

NEW_ID = 4711
PREFIX = "files__"
KINDS = {
    JSONRPCRequest: "request",
    JSONRPCNotification: "notification",
    JSONRPCResponse: "result",
    JSONRPCError: "error",
}

Worker = Callable[[bytes], Any]


class Sample(NamedTuple):
    holds: str
    stream: bytes


def read(stream: bytes) -> JSONRPCMessage:
    line, _ = stream.split(b"\n")
    return jsonrpc_message_adapter.validate_json(line, by_name=False)


def write(message: BaseModel) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


# -- the envelope's classes alone


def envelope(_: str) -> Worker:
    def work(stream: bytes) -> tuple[str, Any, Any]:
        message = read(stream)
        return KINDS[type(message)], getattr(message, "id", None), getattr(message, "method", None)

    return work


def rewrite(holds: str) -> Worker:
    def work(stream: bytes) -> bytes:
        message: Any = read(stream)
        message.id = NEW_ID
        if holds == "call":
            message.params["name"] = PREFIX + message.params["name"]
        elif holds == "tools":
            for tool in message.result["tools"]:
                tool["name"] = PREFIX + tool["name"]
        return write(message)

    return work


def full(_: str) -> Worker:
    def work(stream: bytes) -> bytes:
        message: Any = read(stream)
        message.id = NEW_ID
        return write(message)

    return work


# -- the classes of the methods as well


def typed(holds: str, edit: Callable[[Any], None]) -> Worker:
    result_class = ListToolsResult if holds == "tools" else CallToolResult

    def work_request(stream: bytes) -> bytes:
        message: Any = read(stream)
        request = CallToolRequest.model_validate({"method": message.method, "params": message.params}, by_name=False)
        edit(request)
        dumped = request.model_dump(by_alias=True, mode="json", exclude_unset=True)
        return write(JSONRPCRequest(jsonrpc="2.0", id=NEW_ID, **dumped))

    def work_result(stream: bytes) -> bytes:
        message: Any = read(stream)
        result = result_class.model_validate(message.result, by_name=False)
        edit(result)
        dumped = result.model_dump(by_alias=True, mode="json", exclude_unset=True)
        return write(JSONRPCResponse(jsonrpc="2.0", id=NEW_ID, result=dumped))

    return work_request if holds == "call" else work_result


def typed_rewrite(holds: str) -> Worker:
    def edit(model: Any) -> None:
        if holds == "call":
            model.params.name = PREFIX + model.params.name
        elif holds == "tools":
            for tool in model.tools:
                tool.name = PREFIX + tool.name

    return typed(holds, edit)


def typed_full(holds: str) -> Worker:
    return typed(holds, lambda model: None)


WAYS: dict[str, dict[str, Callable[[str], Worker]]] = {
    "envelope": {"envelope": envelope, "rewrite": rewrite, "full": full},
    "typed": {"rewrite": typed_rewrite, "full": typed_full},
}


def seconds(work: Worker, stream: bytes, repetitions: int) -> float:
    start = time.perf_counter()
    for _ in itertools.repeat(None, repetitions):
        work(stream)
    return time.perf_counter() - start


def main(way: str) -> None:
    jobs = WAYS[way]
    samples: dict[str, Sample] = {}
    say({"version": f"{version('mcp')} with pydantic {version('pydantic')}", "jobs": list(jobs)})
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        if asked["do"] == "take":
            samples[asked["sample"]] = Sample(asked["holds"], asked["stream"].encode())
            say({})
            continue
        sample = samples[asked["sample"]]
        work = jobs[asked["job"]](sample.holds)
        if asked["do"] == "time":
            say({"seconds": seconds(work, sample.stream, asked["repetitions"])})
        else:
            outcome = work(sample.stream)
            say({"line": outcome.decode()} if isinstance(outcome, bytes) else {"envelope": outcome})


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
