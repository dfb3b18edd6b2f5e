"""The command line: what the commands are called, what they take, and how a failure is told to a person.

The commands' bodies import what they need, so that ``mcpx --help`` loads no event loop. Everything behind ``--`` is the
command of an upstream, and none of mcpx's own options.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, cast, get_args

from cyclopts import App, CycloptsError, Parameter, Token, UnknownOptionError, UnusedCliTokensError

from mcpx import __version__
from mcpx.cli.text import indented
from mcpx.errors import ConfigError, McpxError

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Sequence

FAILURE = 1
USAGE = 2  # the command line or the configuration is wrong
INTERRUPTED = 130  # as shells report SIGINT

app = App(
    name="mcpx",
    version=__version__,
    help="One MCP server in front of all of yours: every revision of the protocol, in both directions.",
    help_format="plaintext",
    help_epilogue="""\
Examples:
  mcpx demo                             see it work
  mcpx serve                            what a host starts: all your servers
  mcpx check                            is everything in order?
  mcpx serve -- npx -y some-mcp-server  one server, without a configuration

The configuration is looked for in --config, MCPX_CONFIG, ./mcpx.json and
~/.config/mcpx/mcpx.json, in this order. With none, mcpx serves a demo server.""",
)


def _word(default: str) -> Callable[[Any, Sequence[Token]], str]:
    """Reads one of a few words, however its letters are cased: ``DEBUG`` is how many write it in a variable.

    A variable that is empty is as good as none, and gives the default.
    """

    def read(choices: Any, tokens: Sequence[Token]) -> str:
        [token] = tokens
        word = token.value.lower() or (default if token.source == "env" else "")
        if word not in get_args(choices):
            raise ValueError(f'"{token.value}" is not valid; valid are {", ".join(get_args(choices))}')
        return word

    return read


Config = Annotated[str | None, Parameter(help="The configuration file, instead of searching for one.")]
Target = Annotated[str | None, Parameter(help="A configured server's name, or a URL.")]
Command = Annotated[tuple[str, ...] | None, Parameter(parse=False)]
LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Parameter(
        env_var="MCPX_LOG_LEVEL", converter=_word("info"), help="The least important messages to log, on stderr."
    ),
]
QuietLogLevel = Annotated[
    Literal["debug", "info", "warning", "error"],
    Parameter(
        env_var="MCPX_LOG_LEVEL",
        converter=_word("warning"),
        help='The least important messages to log, on stderr; "info" adds what servers write to theirs.',
    ),
]
LogFormat = Annotated[
    Literal["text", "json"],
    Parameter(env_var="MCPX_LOG_FORMAT", converter=_word("text"), help="Lines of text, or one JSON object a line."),
]
Header = Annotated[
    list[str] | None,
    Parameter(
        negative="",
        help='For a URL: an HTTP header "Name: value"; ${VAR} in it is expanded. Can be given more than once.',
    ),
]
Json = Annotated[bool, Parameter(negative="", help="Print JSON.")]


@app.command(
    usage="Usage: mcpx serve [OPTIONS] [TARGET] [-- COMMAND ARG ...]",
    help_epilogue="""\
Examples:
  mcpx serve                        all servers; tools are named SERVER__TOOL
  mcpx serve github                 one server; tools have their own names
  mcpx serve -- uvx some-server     a server given on the spot, likewise
  mcpx serve https://HOST/mcp       one that runs already, likewise
  mcpx serve --passthrough github   all; those of "github" have their own names
  mcpx serve --socket /run/mcp.sock for any number of hosts, on a Unix socket
  mcpx serve --http 127.0.0.1:8000  likewise by HTTP; /mcp is the URL for hosts""",
)
def serve(
    target: Target = None,
    /,
    *,
    config: Config = None,
    passthrough: Annotated[
        list[str] | None,
        Parameter(negative="", help="Show this server's tools under their own names; can be given more than once."),
    ] = None,
    header: Header = None,
    socket: Annotated[
        str | None,
        Parameter(help="Serve any number of hosts on a Unix socket at this path, instead of one on stdin and stdout."),
    ] = None,
    http: Annotated[
        str | None,
        Parameter(
            help="Serve any number of hosts by HTTP at HOST:PORT; others than 127.0.0.1 and its like need a token."
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        Parameter(help="The file with the token that hosts must show by HTTP; MCPX_TOKEN can hold it instead."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        Parameter(negative="", help="One more name that mcpx is served under by HTTP; can be given more than once."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        Parameter(negative="", help="One more origin of web pages that may use it; can be given more than once."),
    ] = None,
    cert: Annotated[str | None, Parameter(help="The certificate that makes it HTTPS, a PEM file.")] = None,
    key: Annotated[str | None, Parameter(help="The key of the certificate, a PEM file.")] = None,
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
    command: Command = None,
) -> int:
    """Serve a host on stdin and stdout, or any number of hosts on a socket or by HTTP.

    Servers are started when they are first needed. The log goes to stderr.
    mcpx ends when the host closes stdin; on a socket and by HTTP, with SIGTERM or SIGINT.
    """
    from mcpx.cli.http import HttpOptions
    from mcpx.cli.serve import serve as run

    options = HttpOptions(http, token_file, allow_host or (), allow_origin or (), cert, key)
    return run(target, command, config, passthrough or [], header or [], socket, options, log_level, log_format)


@app.command(
    usage="Usage: mcpx check [OPTIONS] [NAME ...]",
    help_epilogue="""\
Examples:
  mcpx check
  mcpx check github files
  mcpx check --log-level info github
  mcpx check --config other.json""",
)
def check(
    *names: Annotated[str, Parameter(name="NAME", help="A configured server; without any, all are checked.")],
    config: Config = None,
    log_level: QuietLogLevel = "warning",
) -> int:
    """Load the configuration, start every server, or those that are named, and say what is wrong.

    The exit status is 0 where every server came up, 1 where one did not, and 2 where the configuration is wrong.
    """
    from mcpx.cli.check import check as run

    return run(names, config, log_level)


@app.command(
    usage="Usage: mcpx discover [OPTIONS] TARGET | -- COMMAND ARG ...",
    help_epilogue="""\
Examples:
  mcpx discover github
  mcpx discover https://example.com/mcp
  mcpx discover https://HOST/mcp --header 'X-Key: ${KEY}'
  mcpx discover -- npx -y @modelcontextprotocol/server-everything""",
)
def discover(
    target: Target = None,
    /,
    *,
    config: Config = None,
    header: Header = None,
    json: Json = False,
    log_level: QuietLogLevel = "warning",
    command: Command = None,
) -> int:
    """Start one server, or connect to one at a URL, and say which era, revisions and capabilities it has."""
    from mcpx.cli.discover import discover as run

    return run(target, command, config, header or [], json, log_level)


@app.command(
    usage="Usage: mcpx listen [OPTIONS] [TARGET] [-- COMMAND ARG ...]",
    help_epilogue="""\
Examples:
  mcpx listen
  mcpx listen github --uri file:///notes.txt
  mcpx listen --uri mcpx://github/file:///notes.txt
  mcpx listen --json https://example.com/mcp
  mcpx listen -- npx -y @modelcontextprotocol/server-everything""",
)
def listen(
    target: Target = None,
    /,
    *,
    config: Config = None,
    header: Header = None,
    uri: Annotated[
        list[str] | None,
        Parameter(negative="", help="A resource to hear of, besides the lists; can be given more than once."),
    ] = None,
    json: Annotated[bool, Parameter(negative="", help="Print each change as a JSON object.")] = False,
    log_level: QuietLogLevel = "warning",
    command: Command = None,
) -> int:
    """Start all servers, or one, and print what changes, as they tell of it: a line for each change.

    A line is a server, what changed (tools, prompts or resources), and for a single resource its URI.
    What each server will tell of is said first, on stderr. Ctrl-C or SIGTERM ends it.
    """
    from mcpx.cli.listen import listen as run

    return run(target, command, config, header or [], uri or [], json, log_level)


@app.command(
    usage="Usage: mcpx revisions [OPTIONS] [NAME]",
    help_epilogue="""\
Examples:
  mcpx revisions | less
  mcpx revisions tools/call
  mcpx revisions CallToolResult
  mcpx revisions -32602
  mcpx revisions --json""",
)
def revisions(
    name: Annotated[
        str | None,
        Parameter(help="Only this method, notification, capability, error code, kind of content or type."),
    ] = None,
    /,
    *,
    json: Json = False,
) -> int:
    """Print what each revision of the protocol has: methods, fields, capabilities, error codes."""
    from mcpx.cli.revisions import revisions as run

    return run(name, json)


@app.command(help_epilogue="")
def demo() -> int:
    """Start mcpx on its built-in demo server and show a call through it, from a host of each era.

    It needs no configuration, and heeds none.
    """
    from mcpx.cli.demo import demo as run

    return run()


def main() -> None:
    """The entry point of ``mcpx``."""
    _open_missing()
    # What a server calls itself may not fit the terminal's encoding.
    cast("io.TextIOWrapper[BinaryIO]", sys.stdout).reconfigure(errors="backslashreplace")
    status = run(sys.argv[1:])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # all is done; one that comes now must not look like a crash
    sys.exit(status)


def _open_missing() -> None:
    """Let a standard stream that mcpx was started without lead nowhere; or whatever is opened next had its number."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    for fd, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w", closefd=False))


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit status; what is wrong is said on stderr in a line or two."""
    own, command = _split(argv)
    try:
        function, bound, unparsed = app.parse_args(own, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        return _complain([_usage_problem(error, own), _hint(own)], USAGE)
    if "command" in unparsed:
        bound.arguments["command"] = command
    elif command is not None:
        return _complain(['nothing can follow "--" here', _hint(own)], USAGE)
    try:
        status: Any = function(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except ConfigError as error:
        return _complain(error.problems, USAGE)
    except McpxError as error:
        return _complain([str(error)], FAILURE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter's own flush would fail once more
        return FAILURE
    return status or 0


def _split(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """mcpx's own arguments, and what follows the first ``--`` if there is one."""
    if "--" not in argv:
        return list(argv), None
    at = list(argv).index("--")
    return list(argv[:at]), tuple(argv[at + 1 :])


def _usage_problem(error: CycloptsError, own: Sequence[str]) -> str:
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        problem = f'unexpected argument "{error.unused_tokens[0]}"'
    else:
        problem = " ".join(str(error).split())
    # Something behind what is taken for a server's name: most likely both are a command.
    if isinstance(error, (UnusedCliTokensError, UnknownOptionError)) and _takes_command(own):
        return f'{problem.removesuffix(".")}; a server\'s command goes behind "--"'
    return problem


def _takes_command(own: Sequence[str]) -> bool:
    match own:
        case ["serve" | "discover" | "listen", target, *_]:
            return not target.startswith("-")
        case _:
            return False


def _hint(own: Sequence[str]) -> str:
    named = [token for token in own[:1] if token in ("serve", "check", "discover", "listen", "revisions", "demo")]
    return f'try "{" ".join(["mcpx", *named, "--help"])}"'


def _complain(lines: Sequence[str], status: int) -> int:
    for line in lines:
        print(f"mcpx: {indented(line, 2)}", file=sys.stderr)
    return status
