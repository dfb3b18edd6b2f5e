"""What ``mcpx serve --http`` is told about HTTP, checked as a whole before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mcpx.errors import ConfigError, McpxError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping, Sequence

    from mcpx.host.http import Access

TOKEN_VARIABLE = "MCPX_TOKEN"


class HttpOptions(NamedTuple):
    """The options that belong to ``--http``, as they were given."""

    address: str | None = None
    token_file: str | None = None
    allow_host: Sequence[str] = ()
    allow_origin: Sequence[str] = ()
    cert: str | None = None
    key: str | None = None


class HttpPlan(NamedTuple):
    """Where to serve HTTP, to whom, and how."""

    address: tuple[str, int]
    access: Access
    tls: ssl.SSLContext | None

    @property
    def secrets(self) -> frozenset[str]:
        """What nobody is to see in the log."""
        return frozenset({self.access.token} if self.access.token is not None else ())


def plan_http(options: HttpOptions, environ: Mapping[str, str]) -> HttpPlan | None:
    """What the options say; ``None`` where HTTP is not asked for. Raises ``ConfigError`` with all that is wrong."""
    if options.address is None:
        _check_alone(options)
        return None
    # Late: a host on stdin and stdout need not wait until all this is loaded.
    from mcpx.host.http import Access, plan_access
    from mcpx.transports.listeners import parse_address, server_tls

    problems: list[str] = []
    address, access, tls = ("", 0), Access(), None
    try:
        address = parse_address(options.address)
    except McpxError as error:
        raise ConfigError([f"--http: {error}"]) from None
    try:
        token = _token(options.token_file, environ)
        access = plan_access(address, token=token, hosts=options.allow_host, origins=options.allow_origin)
    except ConfigError as error:
        problems += error.problems
    if (options.cert is None) != (options.key is None):
        problems.append("--cert and --key belong together; where one file holds both, name it twice")
    elif options.cert is not None:
        try:
            tls = server_tls(options.cert, options.key)
        except McpxError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(problems)
    return HttpPlan(address, access, tls)


def _check_alone(options: HttpOptions) -> None:
    """Without ``--http`` none of the others means anything."""
    for name, value in options._asdict().items():
        if value:
            raise ConfigError([f"--{name.replace('_', '-')} is for --http HOST:PORT"])


def _token(file: str | None, environ: Mapping[str, str]) -> str | None:
    """The token of the file that is named, else of the environment."""
    from mcpx.host.http import check_token

    if file is not None:
        try:
            text = Path(file).read_text()
        except OSError as error:
            raise ConfigError([f"the token file {file} cannot be read: {error.strerror}"]) from None
        except UnicodeDecodeError:
            raise ConfigError([f"the token file {file} is no text"]) from None
        return check_token(text, file)
    if environ.get(TOKEN_VARIABLE):
        return check_token(environ[TOKEN_VARIABLE], TOKEN_VARIABLE)
    return None
