"""The walls between the rooms: who may import whom, and what belongs in one place only.

Every module of the package is parsed, none is imported. Imports for type checkers alone count as well: a room that
names another's types knows of it, and could not do without it.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

import mcpx
from mcpx.spec.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PACKAGE = Path(mcpx.__file__).parent

# Room -> the rooms it may import, as the design has it. `errors` is below every room, `settings` below all but the two
# that do no I/O; "" is the package itself, which the import of any module runs first and which holds the version.
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "settings": set(),
    "names": set(),
    "": {"errors", "settings"},
    "wire": {"errors"},
    "spec": {"errors", "wire"},
    "transports": {"errors", "settings", "", "wire"},
    "upstream": {"errors", "settings", "", "transports", "spec", "wire"},
    "gateway": {"errors", "settings", "names", "", "upstream", "spec", "wire"},
    "host": {"errors", "settings", "", "gateway", "transports", "spec", "wire"},
    "app": {"errors", "settings", "", "upstream", "spec", "wire"},
    "demo": {"errors", "settings", "", "app", "upstream", "spec", "wire"},
    "config": {"errors", "settings", "names", "", "spec"},
    "cli": {
        "errors", "settings", "", "wire", "spec", "transports", "upstream", "gateway", "host", "app", "demo", "config",
    },
    "__main__": {"cli"},
}  # fmt: skip

# What a room may import beyond that: single modules of rooms below it, each for a reason. Together with the table they
# still make no circle.
BEYOND: dict[tuple[str, str], str] = {
    ("host", "mcpx.upstream.call"): "the vocabulary between the edges lives in the lowest room that speaks it",
    ("gateway", "mcpx.transports.crew"): "the gateway owns tasks that outlive its cancellation, as channels do",
    ("gateway", "mcpx.transports.ladder"): "whoever leaves a gateway sets on it when mcpx itself must have ended",
    ("app", "mcpx.transports.channel"): "a server in-process is reached over a channel, as any other",
    ("app", "mcpx.transports.crew"): "which has tasks of its own",
    ("app", "mcpx.transports.memory"): "and is in memory",
}

# The vocabulary in turn knows of no transports, though its room does.
VOCABULARY = "mcpx.upstream.call"
VOCABULARY_MAY_IMPORT = {"errors", "wire", "spec"}

SANS_IO = {"wire", "spec"}
# Whatever waits, reads a clock, rolls dice or touches the world.
WORLD = {
    "asyncio", "datetime", "httpx", "os", "outcome", "random", "secrets", "select", "selectors", "signal", "socket",
    "ssl", "subprocess", "threading", "time", "trio", "uuid",
}  # fmt: skip

HTTPX_HOME = "mcpx.transports.http_proxied"


class Import(NamedTuple):
    target: str  # a module, or a name in one
    line: int
    typing_only: bool
    deferred: bool  # within a function


class Module(NamedTuple):
    name: str
    source: str

    @property
    def room(self) -> str:
        return _room(self.name)

    @property
    def is_vocabulary(self) -> bool:
        return self.name == VOCABULARY


def modules() -> list[Module]:
    found: list[Module] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = ("mcpx", *path.relative_to(PACKAGE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Module(name, path.read_text()))
    return found


def imports(source: str) -> list[Import]:
    """Every import of a module, wherever it stands."""
    found: list[Import] = []

    def visit(node: ast.AST, typing_only: bool, deferred: bool) -> None:
        match node:
            case ast.Import(names=names):
                found.extend(Import(alias.name, node.lineno, typing_only, deferred) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                assert level == 0, "relative imports hide which room they reach"
                found.extend(Import(f"{module}.{alias.name}", node.lineno, typing_only, deferred) for alias in names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), body=body, orelse=orelse):
                for child in body:
                    visit(child, True, deferred)
                for child in orelse:
                    visit(child, typing_only, deferred)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                for child in ast.iter_child_nodes(node):
                    visit(child, typing_only, True)
            case _:
                for child in ast.iter_child_nodes(node):
                    visit(child, typing_only, deferred)

    visit(ast.parse(source), False, False)
    return found


def _room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def _is_ours(target: str) -> bool:
    return target == "mcpx" or target.startswith("mcpx.")


def _target_room(target: str) -> str:
    """The room that an import reaches; ``from mcpx import __version__`` reaches the package itself."""
    room = _room(target)
    return room if room in ROOMS else ""


def upward(module: Module) -> Iterator[str]:
    """The imports that a module's room may not make."""
    allowed = VOCABULARY_MAY_IMPORT if module.is_vocabulary else ROOMS[module.room] | {module.room}
    for target, line, _typing_only, deferred in imports(module.source):
        if not _is_ours(target):
            continue
        room = _target_room(target)
        beyond = any(f"{target}.".startswith(f"{home}.") for who, home in BEYOND if who == module.room)
        lazy = module.room == "" and deferred  # the package may hand on names of any room, if nobody pays at import
        if room not in allowed and not beyond and not lazy:
            yield f"{module.name}:{line} imports {target}"


def worldly(module: Module) -> Iterator[str]:
    """The imports that a room without I/O may not make."""
    for target, line, *_ in imports(module.source):
        if module.room in SANS_IO and target.split(".")[0] in WORLD:
            yield f"{module.name}:{line} imports {target}"


def httpx_away_from_home(module: Module) -> Iterator[str]:
    for target, line, *_ in imports(module.source):
        if target.split(".")[0] == "httpx" and module.name != HTTPX_HOME:
            yield f"{module.name}:{line} imports {target}"


def dated(module: Module) -> Iterator[str]:
    """Strings that hold a revision's date outside of the tables. Docstrings may: they name the source of a rule."""
    if module.room == "spec":
        return
    tree = ast.parse(module.source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and id(node) not in prose:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            if any(revision in text for revision in REVISIONS):
                yield f"{module.name}:{node.lineno} holds {node.value!r}"


def circle(package: Iterable[Module]) -> list[str] | None:
    """Modules that import each other in a circle when they are loaded; ``None`` where there are none.

    Imports for types alone, and those inside functions, load nothing and so do not count here.
    """
    known = {module.name: module for module in package}
    graph: dict[str, set[str]] = {}
    for module in known.values():
        around = _with_packages(module.name)  # being loaded already, so that importing one of them is no circle yet
        needs = graph[module.name] = set[str]()
        for target, _, typing_only, deferred in imports(module.source):
            if typing_only or deferred or not _is_ours(target):
                continue
            if target in known:
                needs |= _with_packages(target) - around
            else:  # a name out of a module, which must have been loaded as far as that
                home = target.rpartition(".")[0]
                needs |= {home} | (_with_packages(home) - around)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def _with_packages(name: str) -> set[str]:
    """A module and the packages around it, which are loaded with it."""
    parts = name.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}


def test_the_table_itself_has_no_circle() -> None:
    beyond = [(room, _room(target)) for room, target in BEYOND]
    everything = {room: may | {target for who, target in beyond if who == room} for room, may in ROOMS.items()}
    TopologicalSorter(everything).prepare()


def test_nothing_beyond_the_table_is_allowed_without_need() -> None:
    used = {
        (module.room, home)
        for module in modules()
        for target, *_ in imports(module.source)
        for _, home in BEYOND
        if f"{target}.".startswith(f"{home}.")
    }
    assert BEYOND.keys() <= used


def test_every_module_stands_in_a_room() -> None:
    assert [module.name for module in modules() if module.room not in ROOMS] == []


@pytest.mark.parametrize("rule", [upward, worldly, httpx_away_from_home, dated])
def test_the_walls_hold(rule: object) -> None:
    assert callable(rule)
    assert [fault for module in modules() for fault in rule(module)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(modules()) is None


def test_all_of_the_package_was_looked_at() -> None:
    names = {module.name for module in modules()}
    assert {"mcpx", "mcpx.errors", "mcpx.wire", "mcpx.wire.frames", VOCABULARY} <= names
    assert {"upstream", "gateway", "host", "cli"} <= {module.room for module in modules()}


TYPING = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (upward, "mcpx.errors", "import mcpx.wire"),
        (upward, "mcpx.wire.peer", "from mcpx.spec import meta"),
        (upward, "mcpx.wire.peer", "from mcpx import spec"),
        (upward, "mcpx.wire.peer", "def late():\n    from mcpx.settings import Limits"),
        (upward, "mcpx.wire.peer", f"{TYPING}from mcpx.transports.channel import Channel"),
        (upward, "mcpx.spec.carry", "from mcpx.settings import Limits"),
        (upward, "mcpx.transports.process", "from mcpx.spec.revisions import SUPPORTED"),
        (upward, "mcpx.upstream.session", "import mcpx.gateway.names as names"),
        (upward, "mcpx.gateway.exchange", "from mcpx.transports.channel import Channel"),
        (upward, "mcpx.gateway.exchange", "from mcpx.transports import crew_of_another_ship"),
        (upward, "mcpx.host.legacy", "from mcpx.upstream.session import Session"),
        (upward, "mcpx.host.legacy", "from mcpx.upstream import Session"),
        (upward, "mcpx.upstream.call", "from mcpx.upstream.session import Session"),
        (upward, "mcpx.upstream.call", "from mcpx.settings import Limits"),
        (upward, "mcpx.upstream.call", f"{TYPING}from mcpx.transports.channel import Channel"),
        (upward, "mcpx.config.load", "from mcpx.upstream.target import Target"),
        (upward, "mcpx.wire.frames", "from mcpx import __version__"),
        (upward, "mcpx.cli.main", "import mcpx.__main__"),
        (upward, "mcpx", "from mcpx.gateway.gateway import Gateway"),
        (worldly, "mcpx.wire.lines", "import trio"),
        (worldly, "mcpx.wire.lines", "def now():\n    from time import monotonic"),
        (worldly, "mcpx.spec.carry", "import random as dice"),
        (worldly, "mcpx.spec.carry", f"{TYPING}import trio.abc"),
        (httpx_away_from_home, "mcpx.transports.stdio", "import httpx"),
        (httpx_away_from_home, "mcpx.cli.main", "from httpx._client import Client"),
        (dated, "mcpx.host.legacy", f'LATEST = "{REVISIONS[0]}"'),
        (dated, "mcpx.host.legacy", f'def ask():\n    """Docs."""\n    return f"speaks {REVISIONS[-1]} and {{1}}"'),
        (dated, "mcpx.host.legacy", f'WIRE = b"{REVISIONS[1]}"'),
    ],
)
def test_a_breach_is_seen(rule: object, name: str, source: str) -> None:
    assert callable(rule)
    assert len(list(rule(Module(name, source)))) == 1


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (upward, "mcpx.wire.peer", "import mcpx.errors\nfrom mcpx.wire.frames import Frame\nimport re"),
        (upward, "mcpx.gateway.exchange", "from mcpx.upstream.call import Call\nfrom mcpx import __version__"),
        (
            upward,
            "mcpx.host.legacy",
            f"from mcpx.upstream.call import Reply\n{TYPING}from mcpx.upstream.call import Call",
        ),
        (upward, "mcpx.host.legacy", "from mcpx.upstream import call"),
        (upward, "mcpx.cli.main", "from mcpx import __version__\nfrom mcpx.host.stdio import serve_stdio"),
        (upward, "mcpx", "def __getattr__(name):\n    from mcpx.gateway.gateway import open_gateway"),
        (worldly, "mcpx.upstream.session", "import trio\nimport time"),
        (httpx_away_from_home, HTTPX_HOME, "import httpx"),
        (dated, "mcpx.spec.revisions", f'LATEST = "{REVISIONS[0]}"'),
        (
            dated,
            "mcpx.host.legacy",
            f'"""See {REVISIONS[0]}."""\n\ndef f():\n    """See {REVISIONS[0]}."""  # {REVISIONS[0]}',
        ),
    ],
)
def test_what_is_allowed_is_no_breach(rule: object, name: str, source: str) -> None:
    assert callable(rule)
    assert list(rule(Module(name, source))) == []


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"mcpx.a": "import mcpx.b", "mcpx.b": "from mcpx import a"}, True),
        ({"mcpx.a.x": "from mcpx.a.y import z", "mcpx.a.y": "import mcpx.a.x"}, True),
        ({"mcpx.a": "from mcpx.a.x import z", "mcpx.a.x": "from mcpx.a import z"}, True),
        ({"mcpx.a": "from mcpx.a.x import z", "mcpx.a.x": "import mcpx.b", "mcpx.b": "import mcpx.a"}, True),
        ({"mcpx.a": "from mcpx.a.x import z", "mcpx.a.x": "import mcpx.b", "mcpx.b": "from mcpx.a.x import z"}, True),
        ({"mcpx.a": "from mcpx.a.x import z", "mcpx.a.x": "from mcpx.a import y", "mcpx.a.y": ""}, False),
        ({"mcpx.a": "import mcpx.b", "mcpx.b": f"{TYPING}import mcpx.a"}, False),
        ({"mcpx.a": "import mcpx.b", "mcpx.b": "def late():\n    import mcpx.a"}, False),
        ({"mcpx.a": "import mcpx.b, mcpx.c", "mcpx.b": "import mcpx.c", "mcpx.c": "import re"}, False),
    ],
)
def test_a_circle_is_seen(sources: dict[str, str], found: bool) -> None:
    package = [Module("mcpx", ""), *(Module(name, source) for name, source in sources.items())]
    assert (circle(package) is not None) is found
