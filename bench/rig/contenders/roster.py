"""Everyone who takes part, in the order of the tables."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rig.contenders import peers
from rig.contenders.floor import floor
from rig.contenders.limit import limit
from rig.contenders.ours import ours
from rig.contenders.peers import NotInstalled
from rig.contenders.plain import standard_library, with_orjson
from rig.contenders.remote import open_remote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator

    from rig.contenders.contender import Contender

    Opener = Callable[[ExitStack], Contender]

OURS = "mcpx"  # whom all others are compared with
FLOOR = "split"  # whose outcome is none
_PROGRAMS = Path(__file__).parent / "programs"


def _orjson(_: ExitStack) -> Contender:
    try:
        return with_orjson()
    except ModuleNotFoundError:
        raise NotInstalled("orjson is not installed: `pip install -e '.[test]'`") from None


def _python_sdk(name: str, way: str) -> Opener:
    def start(stack: ExitStack) -> Contender:
        # Isolated, so that nothing of this environment or this folder is in the way of the SDK's own.
        command = [str(peers.python_sdk()), "-I", str(_PROGRAMS / "python_sdk.py"), way]
        return stack.enter_context(open_remote(name, command))

    return start


def _node(name: str, way: str) -> Opener:
    def start(stack: ExitStack) -> Contender:
        command = [str(peers.node()), str(_PROGRAMS / "node.mjs"), way]
        if way != "json":
            command.append(str(peers.node_modules()))
        return stack.enter_context(open_remote(name, command))

    return start


ROSTER: dict[str, Opener] = {
    OURS: lambda _: ours(),
    "json": lambda _: standard_library(),
    "orjson": _orjson,
    "py-sdk": _python_sdk("py-sdk", "envelope"),
    "py-sdk-typed": _python_sdk("py-sdk-typed", "typed"),
    "node": _node("node", "json"),
    "ts-sdk": _node("ts-sdk", "envelope"),
    "ts-sdk-typed": _node("ts-sdk-typed", "typed"),
    "msgspec": lambda _: limit(),
    FLOOR: lambda _: floor(),
}


@contextmanager
def open_contenders(without: Collection[str]) -> Generator[list[Contender]]:
    """Everyone but those, ready. Raises ``NotInstalled`` with a sentence on each that is not there."""
    with ExitStack() as stack:
        ready: list[Contender] = []
        missing: list[str] = []
        for name, opener in ROSTER.items():
            if name in without:
                continue
            try:
                ready.append(opener(stack))
            except NotInstalled as problem:
                missing.append(f"{problem}; or leave it out with --without {name}")
        if missing:
            raise NotInstalled("\n".join(missing))
        yield ready
