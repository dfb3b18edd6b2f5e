"""The kinds of fault that are known to hurt users of gateways, as far as stdio, HTTP, lists, names, questions and the
probe touch them.

Each has tests named after it (``test_pain_05_...`` for 5); ``test_kinds.py`` holds the two together. Near misses are
``test_near_...``, and what bad input gets is ``test_bad_...``.
"""

from __future__ import annotations

KINDS: dict[int, str] = {
    1: "a wrapper dies and the real server lives on",
    2: "the gateway dies hard and its servers stay",
    3: "stderr is never drained",
    4: "long lines meet a small limit, or quadratic work",
    5: "noise on stdout",
    6: "bytes that are not clean UTF-8",
    7: "a shutdown never ends, or cuts streams off",
    8: "too little or too much environment",
    9: "request ids change their type",
    10: "cancellation stops at the gateway",
    11: "progress tokens are mixed up, and timers fire though the server works",
    12: "a question or a log message reaches somebody else than whoever caused it",
    13: "fields are lost or judged in transit",
    14: "only the first page of a list is read",
    15: "names are too long, have other characters, or are the same",
    16: "one schema poisons the whole list",
    17: "list_changed comes in storms",
    18: "a session that the server forgot is named to it for ever",
    19: "the probe kills, wedges or races legacy servers",
    20: "headers and metadata of the modern era are not said anew on each hop",
    21: "what a server asks is lost between the eras, or answered by somebody else",
    22: "idle streams are cut by the middle",
    23: "sessions and maps only grow",
    24: "one slow or dead server stops all",
}
