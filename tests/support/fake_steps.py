"""What a scripted upstream can be told to do: one function per step (see ``fake_up.py``).

A step that takes time is a generator: it yields seconds to wait, or the name of what it waits for.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

META = "io.modelcontextprotocol/"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


def step_answer(fake, request, _):
    value = fake.answer(request)
    if value is not None:
        fake.result(request, value)


def step_wait(fake, request, seconds):
    yield seconds


def step_hold(fake, request, name):
    fake.record.write("held", name)
    if name not in fake.released:
        yield name


def step_result(fake, request, value):
    fake.result(request, value)


def step_raw(fake, request, text):
    fake.reply(request, "result", text)


def step_batch(fake, request, frames):
    """The default answer and other frames, as one JSON-RPC batch."""
    answer = {"jsonrpc": "2.0", "id": request.id, "result": fake.answer(request)}
    fake.write(json.dumps([*frames, answer]))


def step_error(fake, request, error):
    fake.reply(request, "error", error if isinstance(error, str) else json.dumps(error))


def step_progress(fake, request, value):
    for number in range(value.get("times", 1)):
        if number:
            yield value.get("every", 0)
        if request.token is not None:
            request.progress += 1
            extra = {key: value[key] for key in ("total", "message") if key in value} | value.get("params", {})
            params = {"progressToken": request.token, "progress": request.progress, **extra}
            fake.notify("notifications/progress", params)


def step_log(fake, request, value):
    """A log message, ``[level, data]``, where its level is wanted: by the request, or by what a legacy client has set.

    A modern server has none without the request to say so, a legacy one sends all of them before it is told.
    """
    level, data = value
    modern = request is not None and request.modern
    least = (request.params.get("_meta") or {}).get(META + "logLevel") if modern else fake.level
    if (least is None and not modern) or (least is not None and LEVELS.index(level) >= LEVELS.index(least)):
        fake.notify("notifications/message", {"level": level, "logger": "fake", "data": data})


def step_notify(fake, request, value):
    """A notification: to every listen stream, tagged, where there are some and ``listen`` is said; else as it is."""
    if value.get("listen"):
        for stream in fake.listening.values():
            params = {**value.get("params", {}), "_meta": {META + "subscriptionId": stream.id}}
            fake.notify(value["method"], params)
    else:
        fake.notify(value["method"], value.get("params"))


def step_changed(fake, request, what):
    """A change of a list (``"tools"``) or of a resource (its URI), told to whom it may be told in each era."""
    is_list = what in ("tools", "prompts", "resources")
    method = f"notifications/{what}/list_changed" if is_list else "notifications/resources/updated"
    params = {} if is_list else {"uri": what}
    for stream in fake.listening.values():
        if stream.filter.get(f"{what}ListChanged") or what in stream.filter.get("resourceSubscriptions", ()):
            fake.notify(method, {**params, "_meta": {META + "subscriptionId": stream.id}})
    if fake.script["legacy"] and not fake.listening and (is_list or what in fake.subscribed):
        fake.notify(method, params or None)


def step_unlisten(fake, request, error):
    """End every listen stream: gracefully, or with an error."""
    for stream in list(fake.listening.values()):
        if error:
            fake.reply(stream, "error", json.dumps(error))
        else:
            fake.result(stream, {"_meta": {META + "subscriptionId": stream.id}})
    fake.listening.clear()


def step_ask(fake, request, value):
    """Send a request of the server's own, and wait for its answer, unless ``forget`` is said."""
    fake.next_id += 1
    ident = value.get("id", fake.next_id)
    params = {"params": value["params"]} if "params" in value else {}
    fake.write(json.dumps({"jsonrpc": "2.0", "id": ident, "method": value["method"], **params}))
    if not value.get("forget"):
        yield f"answer {ident}"


def step_answered(fake, request, ident):
    """Wait for the answer to a request that was sent before."""
    if f"answer {ident}" not in fake.released:
        yield f"answer {ident}"


def step_withdraw(fake, request, ident):
    """Cancel a request of the server's own."""
    fake.notify("notifications/cancelled", {"requestId": ident, "reason": "No longer needed"})


def step_require(fake, request, value):
    """Answer with ``input_required``: the questions by key, and the state."""
    asked = {"inputRequests": value["questions"]} if "questions" in value else {}
    state = {"requestState": value["state"]} if "state" in value else {}
    fake.result(request, {"resultType": "input_required", **asked, **state})


def step_told(fake, request, _):
    """A result with all that was answered: to the server's own requests by id, to questions in a result by key."""
    told = fake.answers
    if request.modern:
        told = {"answers": request.params.get("inputResponses"), "state": request.params.get("requestState")}
    fake.result(request, {"content": [{"type": "text", "text": json.dumps(told)}]})


def step_stdout(fake, request, text):
    """Bytes, one per character, just as they are: noise, a mark at the start, invalid UTF-8, half a line."""
    data = text.encode("latin-1")
    fake.record.line("raw", data)
    fake.write_bytes(data)


def step_cork(fake, request, steps):
    """Go through steps, and write all that they write to stdout in one piece."""
    fake.corked = b""
    yield from fake.steps(steps, request)
    data, fake.corked = fake.corked, None
    fake.write_bytes(data)


def step_stderr(fake, request, text):
    fake.write_bytes(text.encode("utf-8"), 2)


def step_flood(fake, request, size):
    """So many bytes on stderr, without a newline."""
    fake.write_bytes(b"x" * size, 2)


def step_big(fake, request, size):
    fake.result(request, {"content": [{"type": "text", "text": "y" * size}]})


def step_env(fake, request, _):
    fake.result(request, {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]})


def step_block(fake, request, seconds):
    """Deaf and dumb for a while."""
    time.sleep(seconds)


def step_spell(fake, request, how):
    fake.spell = how


def step_set(fake, request, values):
    fake.script.update(values)


def step_touch(fake, request, path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))


def step_spawn(fake, request, command):
    """A child of its own that nobody waits for."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    fake.record.write("spawn", child.pid)


def step_close(fake, request, descriptor):
    os.close(descriptor)


def step_exit(fake, request, status):
    fake.record.write("exit", status)
    os._exit(status)


def step_kill(fake, request, name):
    """End by a signal."""
    fake.record.write("exit", name)
    number = getattr(signal, name)
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


STEPS = {name.removeprefix("step_"): value for name, value in globals().items() if name.startswith("step_")}
