"""Reading a configuration: what is found where, what is decoded, and every mistake with its exact words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpx.config import DEMO, Loaded, load
from mcpx.errors import ConfigError
from mcpx.settings import Limits, ServerSettings
from mcpx.spec.revisions import REVISIONS, SUPPORTED, V2025_06_18

ENVIRON = {"HOME": "/home/me", "TOKEN": "s3cret", "EMPTY": ""}


def write(folder: Path, document: Any, name: str = "mcpx.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def read(folder: Path, document: Any) -> Loaded:
    return load(str(write(folder, document)), ENVIRON, folder)


def problems(folder: Path, document: Any) -> list[str]:
    """The problems, without the file's name that each begins with."""
    with pytest.raises(ConfigError) as caught:
        read(folder, document)
    prefix = f"{folder / 'mcpx.json'}: "
    assert all(problem.startswith(prefix) for problem in caught.value.problems)
    return [problem.removeprefix(prefix) for problem in caught.value.problems]


def warnings(folder: Path, document: Any) -> list[str]:
    return [warning.removeprefix(f"{folder / 'mcpx.json'}: ") for warning in read(folder, document).warnings]


# -- what is decoded


def test_a_whole_configuration(tmp_path: Path) -> None:
    loaded = read(
        tmp_path,
        {
            "$schema": "https://example.com/schema.json",
            "limits": {"probeDelay": 0.5, "callTimeout": {"total": 900}, "exitBudget": {"signal": 0.5}, "maxPages": 7},
            "mcpServers": {
                "files": {
                    "type": "stdio",
                    "command": "npx",
                    "args": ["-y", "server", "${HOME}/files"],
                    "env": {"TOKEN": "${TOKEN}", "MODE": "${MODE:-fast}"},
                    "inheritEnv": ["HOME"],
                    "cwd": "work",
                    "protocol": V2025_06_18,
                    "scope": "shared",
                    "limits": {"callTimeout": 60, "startTimeout": 5},
                },
                "remote": {
                    "url": "https://example.com/mcp?key=${TOKEN}",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                    "transport": "streamable-http",
                },
                "off": {"command": "${NOT_SET}", "disabled": True},
            },
        },
    )
    assert loaded.warnings == ()
    assert loaded.disabled == ("off",)
    settings = loaded.settings
    assert settings.source == str(tmp_path / "mcpx.json")
    assert settings.state_dir == "/home/me/.local/state/mcpx"
    general = Limits(probe_delay=0.5, call_timeout_total=900, exit_budget_signal=0.5, max_pages=7)
    assert settings.limits == general
    assert settings.servers == (
        ServerSettings(
            name="files",
            command="npx",
            args=("-y", "server", "/home/me/files"),
            env={"TOKEN": "s3cret", "MODE": "fast"},
            inherit_env=("HOME",),
            cwd=str(tmp_path / "work"),
            transport="stdio",
            protocol=V2025_06_18,
            scope="shared",
            limits=Limits(
                probe_delay=0.5,
                start_timeout=5,
                call_timeout=60,
                call_timeout_total=900,
                exit_budget_signal=0.5,
                max_pages=7,
            ),
        ),
        ServerSettings(
            name="remote",
            url="https://example.com/mcp?key=s3cret",
            headers={"Authorization": "Bearer s3cret"},
            transport="http",
            limits=general,
        ),
    )


def test_the_order_of_the_servers_is_the_file_s(tmp_path: Path) -> None:
    names = ["z", "a", "m", "b"]
    loaded = read(tmp_path, {"mcpServers": {name: {"command": "x"} for name in names}})
    assert [server.name for server in loaded.settings.servers] == names


def test_vs_code_calls_it_servers(tmp_path: Path) -> None:
    entries = {"a": {"type": "stdio", "command": "x"}}
    assert (
        read(tmp_path, {"servers": entries}).settings.servers
        == read(tmp_path, {"mcpServers": entries}).settings.servers
    )


@pytest.mark.parametrize(
    ("spelling", "transport", "reached"),
    [
        ("stdio", "stdio", {"command": "x"}),
        ("http", "http", {"url": "http://h/"}),
        ("streamable-http", "http", {"url": "https://h/"}),
        ("streamableHttp", "http", {"url": "https://h/"}),
        ("streamable_http", "http", {"url": "https://h/"}),
        ("sse", "sse", {"url": "http://h/sse"}),
        ("ws", "websocket", {"url": "ws://h/"}),
        ("websocket", "websocket", {"url": "wss://h/"}),
    ],
)
@pytest.mark.parametrize("key", ["type", "transport"])
def test_spellings_of_a_transport(
    tmp_path: Path, key: str, spelling: str, transport: str, reached: dict[str, str]
) -> None:
    [server] = read(tmp_path, {"mcpServers": {"a": {**reached, key: spelling}}}).settings.servers
    assert server.transport == transport


@pytest.mark.parametrize("protocol", ["auto", "legacy", "modern", *REVISIONS])
def test_each_protocol(tmp_path: Path, protocol: str) -> None:
    [server] = read(tmp_path, {"mcpServers": {"a": {"command": "x", "protocol": protocol}}}).settings.servers
    assert server.protocol == protocol


@pytest.mark.parametrize(
    "url", ["unix:///run/mcp.sock", "unix:///a%3Fb", "tcp://localhost:7000", "tcp://[::1]:7000/", "http://[::1]:80/mcp"]
)
def test_other_addresses(tmp_path: Path, url: str) -> None:
    [server] = read(tmp_path, {"mcpServers": {"a": {"url": url}}}).settings.servers
    assert server.url == url


def test_a_plain_number_for_a_pair(tmp_path: Path) -> None:
    loaded = read(tmp_path, {"limits": {"callTimeout": 20, "exitBudget": 1}, "mcpServers": {"a": {"command": "x"}}})
    assert loaded.settings.limits == Limits(call_timeout=20, exit_budget_eof=1, exit_budget_signal=1)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = tmp_path / "mcpx.json"
    path.write_bytes(b"\xef\xbb\xbf" + b'{"mcpServers": {"a": {"command": "x"}}}')
    assert [server.name for server in load(str(path), ENVIRON, tmp_path).settings.servers] == ["a"]


# -- where it is found


def test_the_order_of_the_places(tmp_path: Path) -> None:
    """--config, MCPX_CONFIG, ./mcpx.json, the user's folder; each counts only where the ones before are not there."""
    work = tmp_path / "work"
    environ = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "conf")}
    in_order = [
        write(tmp_path, {"mcpServers": {"option": {"command": "x"}}}, "option.json"),
        write(tmp_path, {"mcpServers": {"variable": {"command": "x"}}}, "variable.json"),
        write(work, {"mcpServers": {"here": {"command": "x"}}}),
        write(tmp_path, {"mcpServers": {"user": {"command": "x"}}}, "conf/mcpx/mcpx.json"),
    ]
    environ["MCPX_CONFIG"] = str(in_order[1])

    def found(path: str | None) -> str | None:
        return load(path, environ, work).settings.source

    assert found(str(in_order[0])) == str(in_order[0])
    assert found(None) == str(in_order[1])
    environ["MCPX_CONFIG"] = ""
    assert found(None) == str(in_order[2])
    in_order[2].unlink()
    assert found(None) == str(in_order[3])
    in_order[3].unlink()
    assert found(None) is None


def test_without_any_file_it_is_the_demo_server(tmp_path: Path) -> None:
    loaded = load(None, {"HOME": str(tmp_path)}, tmp_path)
    assert loaded.settings.servers == (DEMO,)
    assert ServerSettings(name="demo", builtin="demo") == DEMO
    assert loaded.settings.source is None


@pytest.mark.parametrize(
    ("path", "environ", "by"), [("x.json", {}, "--config"), (None, {"MCPX_CONFIG": "x.json"}, "MCPX_CONFIG")]
)
def test_a_named_file_must_be_there(tmp_path: Path, path: str | None, environ: dict[str, str], by: str) -> None:
    write(tmp_path, {"mcpServers": {}})  # not fallen back on
    with pytest.raises(ConfigError) as caught:
        load(path, environ, tmp_path)
    assert caught.value.problems == [f"{tmp_path / 'x.json'}: no such file (named by {by})"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "mcpx.json").mkdir()
    with pytest.raises(ConfigError) as caught:
        load(None, {}, tmp_path)
    assert caught.value.problems == [f"{tmp_path / 'mcpx.json'}: cannot be read: Is a directory"]


def test_a_file_that_is_far_too_large(tmp_path: Path) -> None:
    assert problems(tmp_path, " " * (4 * 1024 * 1024 + 1)) == ["larger than 4194304 bytes, so not a configuration"]


def test_a_leading_tilde_is_the_home_folder(tmp_path: Path) -> None:
    path = write(tmp_path, {"mcpServers": {"a": {"command": "x"}}}, "conf.json")
    loaded = load("~/conf.json", {"HOME": str(tmp_path)}, Path("/"))
    assert loaded.settings.source == str(path)


# -- mistakes in the file as a whole


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON (line 1, column 1): the file is empty"),
        (" \n", "not JSON (line 1, column 1): the file is empty"),
        ("{\n  // mine\n}", "not JSON (line 2, column 3): comments are not allowed"),
        ('{"mcpServers": {},\n}', "not JSON (line 1, column 18): a comma after the last member is not allowed"),
        ('{"mcpServers": {}\n', "not JSON (line 2, column 1): the file ends too early; a bracket may be missing"),
        ('{"mcpServers":', "not JSON (line 1, column 15): the file ends too early; a bracket may be missing"),
        ('{"mcpServers": {} "limits": {}}', "not JSON (line 1, column 19): Expecting ',' delimiter"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "must be an object, not a list"),
        ("{}", 'has no "mcpServers"'),
        ('{"mcpServers": {}, "servers": {}}', 'has both "mcpServers" and "servers"; use one'),
        ('{"mcpServers": []}', "mcpServers: must be an object, not a list"),
        ('{"limits": 5, "mcpServers": {}}', "limits: must be an object, not a number"),
        ('{"mcpServers": {}, "mcpServers": {}}', '"mcpServers" is there more than once'),
    ],
)
def test_a_file_that_is_wrong_as_a_whole(tmp_path: Path, text: str, problem: str) -> None:
    assert problems(tmp_path, text) == [problem]


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "mcpx.json"
    path.write_bytes('{\n"mcpServers": {"é": {}}}'.encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        load(str(path), {}, tmp_path)
    assert caught.value.problems == [f"{path}: not UTF-8 (line 2); save the file as UTF-8"]


# -- mistakes in one server

_VALID_PROTOCOLS = ", ".join(("auto", "legacy", "modern", *SUPPORTED))
_VALID_TYPES = "stdio, http, streamable-http, streamableHttp, streamable_http, sse, ws, websocket"
_VALID_SCHEMES = "http://, https://, ws://, wss://, unix://, tcp://"
_VALID_UNIX, _VALID_TCP = "valid is unix:///PATH", "valid is tcp://HOST:PORT"
_NO_CREDENTIALS = "cannot hold a user name or password, as there is nothing to send them in"
_NOT_SET = "itself and cannot be set; take it out of the headers"
_NO_QUERY = 'holds no query or fragment ("?" in a path is written %3F, "#" is %23)'


WRONG: list[tuple[Any, list[str]]] = [
    (5, ["must be an object, not a number"]),
    ({}, ['has no "command" or "url"']),
    ({"type": "stdio"}, ['has no "command"']),
    ({"type": "sse"}, ['has no "url"']),
    (
        {"command": "x", "url": "http://h/"},
        ['has both a "command" and a "url"; a server is either a process or an address'],
    ),
    ({"command": "x", "type": "http"}, ['type: "http" does not go with "command"']),
    ({"url": "http://h/", "transport": "stdio"}, ['transport: "stdio" does not go with "url"']),
    ({"url": "http://h/", "type": "ws"}, ['url: http:// does not go with type "ws"; valid is ws:// or wss://']),
    (
        {"url": "http://h/", "type": "http", "transport": "sse"},
        ['type "http" and transport "sse" contradict each other'],
    ),
    ({"command": "x", "type": "local"}, [f'type: "local" is not valid; valid are {_VALID_TYPES}']),
    ({"command": ""}, ["command: must name a program, and is empty"]),
    ({"command": "${EMPTY}"}, ["command: must name a program, and is empty"]),
    ({"command": None}, ["command: must be a string, not null"]),
    (
        {"command": ["npx", "-y"]},
        ['command: must be a string, not a list; what follows the program goes into "args"'],
    ),
    ({"command": "a\0b"}, ["command: must not hold a NUL character"]),
    ({"command": "x", "args": "-y"}, ["args: must be a list of strings, not a string"]),
    (
        {"command": "x", "args": ["a", 5, None, {}]},
        [
            "args[1]: must be a string, not 5; put it in quotes",
            "args[2]: must be a string, not null",
            "args[3]: must be a string, not an object",
        ],
    ),
    ({"command": "x", "env": ["A=1"]}, ["env: must be an object of strings, not a list"]),
    ({"command": "x", "env": {"PIN": 1234}}, ["env.PIN: must be a string, not a number; put it in quotes"]),
    (
        {"command": "x", "env": {"": "a", "A=B": "c"}},
        [
            'env: "": a variable\'s name must not be empty or hold "="',
            'env: "A=B": a variable\'s name must not be empty or hold "="',
        ],
    ),
    (
        {"command": "x", "inheritEnv": "HOME"},
        ["inheritEnv: must be true, false or a list of variables' names, not a string"],
    ),
    ({"command": "x", "inheritEnv": [True]}, ["inheritEnv[0]: must be a string, not true; put it in quotes"]),
    ({"command": "x", "cwd": 5}, ["cwd: must be a string, not 5; put it in quotes"]),
    ({"command": "x", "disabled": "true"}, ['disabled: must be true or false, not "true"']),
    ({"command": "x", "scope": "user"}, ['scope: "user" is not valid; valid are host, shared, call']),
    (
        {"command": "x", "protocol": "2025-6-18"},
        [f'protocol: "2025-6-18" is not valid; valid are {_VALID_PROTOCOLS}'],
    ),
    ({"command": "x", "protocol": 2025}, [f"protocol: 2025 is not valid; valid are {_VALID_PROTOCOLS}"]),
    ({"command": "x", "protocol": ["auto"]}, [f"protocol: a list is not valid; valid are {_VALID_PROTOCOLS}"]),
    ({"url": "example.com/mcp"}, [f"url: has no scheme; valid are {_VALID_SCHEMES}"]),
    ({"url": "ftp://h/"}, [f'url: "ftp" is not a valid scheme; valid are {_VALID_SCHEMES}']),
    ({"url": "http:///mcp"}, ["url: a http:// URL needs a host"]),
    ({"url": "http://user:s3cret@[h/"}, ["url: is not a URL"]),
    ({"url": "ws://h/#s3cret"}, ['url: a ws:// URL holds no fragment ("#" in it is written %23)']),
    ({"url": "unix://"}, [f"url: a unix:// URL needs a path; {_VALID_UNIX}"]),
    ({"url": "unix:///"}, [f"url: a unix:// URL needs a path; {_VALID_UNIX}"]),
    ({"url": "unix://run/mcp.sock"}, [f"url: a unix:// URL has no host, so three slashes; {_VALID_UNIX}"]),
    ({"url": "unix:///run/%00"}, [f"url: a unix:// URL must not hold a NUL character; {_VALID_UNIX}"]),
    ({"url": "unix:///run/a?b"}, [f"url: a unix:// URL {_NO_QUERY}; {_VALID_UNIX}"]),
    ({"url": "unix://user:s3cret@/run/a"}, [f"url: a unix:// URL {_NO_CREDENTIALS}; {_VALID_UNIX}"]),
    ({"url": "tcp://h"}, [f"url: a tcp:// URL needs a port; {_VALID_TCP}"]),
    ({"url": "tcp://h:0"}, [f"url: a tcp:// URL needs a port; {_VALID_TCP}"]),
    ({"url": "tcp://:80"}, [f"url: a tcp:// URL needs a host; {_VALID_TCP}"]),
    ({"url": "tcp://h:80/mcp"}, [f"url: a tcp:// URL has no path; {_VALID_TCP}"]),
    ({"url": "tcp://h:80#s3cret"}, [f"url: a tcp:// URL {_NO_QUERY}; {_VALID_TCP}"]),
    ({"url": "tcp://user@h:80"}, [f"url: a tcp:// URL {_NO_CREDENTIALS}; {_VALID_TCP}"]),
    ({"url": "tls://h:80"}, [f'url: "tls" is not a valid scheme; valid are {_VALID_SCHEMES}']),
    (
        {"url": "tcp://h:80", "type": "http"},
        ['url: tcp:// does not go with type "http"; valid is http:// or https://'],
    ),
    ({"url": "http://h/", "headers": "X: y"}, ["headers: must be an object of strings, not a string"]),
    ({"url": "http://h/", "headers": {"a b": "x"}}, ['headers: "a b": not a valid name of an HTTP header']),
    ({"url": "http://h/", "headers": {"X": "a\r\nY: b"}}, ["headers.X: must not hold a line break"]),
    ({"url": "http://h/", "headers": {"X": "s3cret\n"}}, ["headers.X: must not hold a line break"]),
    ({"url": "ws://h/", "headers": {"X": "s3\x1bcret"}}, ["headers.X: must not hold a control character"]),
    ({"url": "https://h/", "headers": {"X": "\x7f"}}, ["headers.X: must not hold a control character"]),
    ({"url": "http://h/", "headers": {"X": 1}}, ["headers.X: must be a string, not a number; put it in quotes"]),
    (
        {"url": "${NOPE:-HTTPS}://h/", "headers": {"Accept": "*/*", "TE": "trailers", "X": "y"}},
        [f"headers.Accept: belongs to MCP {_NOT_SET}", f"headers.TE: belongs to HTTP {_NOT_SET}"],
    ),
    (
        {"url": "wss://h/", "headers": {"Sec-WebSocket-Protocol": "mcp"}},
        [f"headers.Sec-WebSocket-Protocol: belongs to the WebSocket handshake {_NOT_SET}"],
    ),
]


@pytest.mark.parametrize(("entry", "expected"), WRONG)
def test_a_server_that_is_wrong(tmp_path: Path, entry: Any, expected: list[str]) -> None:
    assert problems(tmp_path, {"mcpServers": {"it": entry}}) == [f'server "it": {problem}' for problem in expected]


_HTTP = ["Connection", "content-length", "Expect", "Keep-Alive", "Proxy-Connection", "TE", "Trailer",
         "Transfer-Encoding", "UPGRADE"]  # fmt: skip
_MCP = ["Accept", "Content-Type", "Content-Encoding", "Last-Event-ID", "MCP-Protocol-Version", "mcp-session-id",
        "Mcp-Method", "Mcp-Name", "Mcp-Param-Region", "Mcp-"]  # fmt: skip
_HANDSHAKE = ["Sec-WebSocket-Key", "sec-websocket-version", "Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"]


@pytest.mark.parametrize(
    ("schemes", "reserved", "owner"),
    [
        (("http", "https", "ws", "wss"), _HTTP, "HTTP"),
        (("http", "https"), _MCP, "MCP"),
        (("ws", "wss"), _HANDSHAKE, "the WebSocket handshake"),
    ],
)
def test_headers_that_mcpx_says_itself(
    tmp_path: Path, schemes: tuple[str, ...], reserved: list[str], owner: str
) -> None:
    for scheme in schemes:
        entry = {"url": f"{scheme}://h/", "headers": dict.fromkeys(reserved, "s3cret")}
        assert problems(tmp_path, {"mcpServers": {"it": entry}}) == [
            f'server "it": headers.{name}: belongs to {owner} {_NOT_SET}' for name in reserved
        ]


@pytest.mark.parametrize(
    ("scheme", "name"),
    [
        *(("https", name) for name in ("Host", "Authorization", "Cookie", "User-Agent", "Origin", "Accept-Language",
                                       "X-Mcp-Name", "McpToken", *_HANDSHAKE)),
        *(("wss", name) for name in ("Host", "Authorization", "Origin", *_MCP)),
    ],
)  # fmt: skip
def test_headers_that_are_the_user_s(tmp_path: Path, scheme: str, name: str) -> None:
    loaded = read(tmp_path, {"mcpServers": {"it": {"url": f"{scheme}://h/", "headers": {name: "a\tb é"}}}})
    assert loaded.settings.servers[0].headers == {name: "a\tb é"}
    assert loaded.warnings == ()


def test_headers_of_a_disabled_server(tmp_path: Path) -> None:
    """Its URL is not expanded, so nothing is known of what goes with it."""
    entry = {"url": "http://h/", "headers": {"Accept": "*/*"}, "disabled": True}
    assert read(tmp_path, {"mcpServers": {"it": entry}}).disabled == ("it",)


@pytest.mark.parametrize("url", ["http://h:99999/", "tcp://h:one", "ws://user:s3/cret@h/"])
def test_a_port_that_is_none(tmp_path: Path, url: str) -> None:
    """It is not shown: it may be half of a password."""
    told = 'server "it": url: the port must be a number from 0 to 65535'
    assert problems(tmp_path, {"mcpServers": {"it": {"url": url}}}) == [told]


@pytest.mark.parametrize(
    ("key", "value", "at"),
    [
        ("command", "${NOPE}", "command"),
        ("args", ["a", "${NOPE}"], "args[1]"),
        ("env", {"A": "${NOPE}"}, "env.A"),
        ("cwd", "/x/${NOPE}", "cwd"),
    ],
)
def test_an_unset_variable_is_named_with_its_place(tmp_path: Path, key: str, value: Any, at: str) -> None:
    entry = {"command": "x", key: value}
    assert problems(tmp_path, {"mcpServers": {"it": entry}}) == [
        f'server "it": {at}: the environment variable NOPE is not set, and no default is given (${{NOPE:-...}})'
    ]


@pytest.mark.parametrize(
    ("key", "value", "at"), [("url", "http://${NOPE}/", "url"), ("headers", {"X": "${NOPE}"}, "headers.X")]
)
def test_an_unset_variable_of_a_remote_server(tmp_path: Path, key: str, value: Any, at: str) -> None:
    entry = {"url": "http://h/", key: value}
    assert problems(tmp_path, {"mcpServers": {"it": entry}}) == [
        f'server "it": {at}: the environment variable NOPE is not set, and no default is given (${{NOPE:-...}})'
    ]


def test_the_key_of_states(tmp_path: Path) -> None:
    servers = {"a": {"command": "x"}}
    assert read(tmp_path, {"mcpServers": servers}).settings.state_key is None
    document = {"mcpServers": servers, "stateKey": "${KEY}"}
    loaded = load(str(write(tmp_path, document)), {**ENVIRON, "KEY": "0123456789abcdef"}, tmp_path)
    assert loaded.settings.state_key == "0123456789abcdef"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("hush-5678901234", "must have at least 16 characters; openssl rand -hex 32 makes a good one"),
        (7, "must be a string, not a number; put it in quotes"),
        (["hush"], "must be a string, not a list"),
    ],
)
def test_a_key_of_states_that_is_wrong(tmp_path: Path, key: Any, problem: str) -> None:
    assert problems(tmp_path, {"mcpServers": {"a": {"command": "x"}}, "stateKey": key}) == [f"stateKey: {problem}"]


def test_nothing_else_is_expanded(tmp_path: Path) -> None:
    """Neither names, nor other keys, nor what a variable holds."""
    document = {"mcpServers": {"${TOKEN}": {"command": "x", "env": {"${TOKEN}": "$TOKEN ${NESTED}"}}}}
    loaded = load(str(write(tmp_path, document)), {**ENVIRON, "NESTED": "${TOKEN}"}, tmp_path)
    [server] = loaded.settings.servers
    assert server.name == "${TOKEN}"
    assert server.env == {"${TOKEN}": "$TOKEN ${TOKEN}"}
    assert problems(tmp_path, {"mcpServers": {"a": {"command": "x", "scope": "${SCOPE:-host}"}}}) == [
        'server "a": scope: "${SCOPE:-host}" is not valid; valid are host, shared, call'
    ]


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    text = """{
      "limits": {"probeDelay": -1},
      "mcpServers": {
        "a": {"command": "x", "command": "y", "scope": "any"},
        "b": {"env": {"X": "${NOPE}", "X": "1"}},
        "c": {"command": "x"},
        "c": {"args": []},
        "": {"command": "x"}
      }
    }"""
    assert problems(tmp_path, text) == [
        'two servers are called "c"',
        'server "a": "command" is there more than once',
        'server "b": "env.X" is there more than once',
        "limits.probeDelay: -1 is not valid; valid is a number of seconds from 0 to 604800",
        'server "a": scope: "any" is not valid; valid are host, shared, call',
        'server "b": has no "command" or "url"',
        'server "c": has no "command" or "url"',
        'server "": a server\'s name must not be empty',
    ]


def test_what_is_odd_is_said_with_what_is_wrong(tmp_path: Path) -> None:
    """A key that is misspelt is often why another is missing."""
    assert problems(tmp_path, {"mcpServers": {"a": {"comand": "x"}, "b": {"command": ""}}}) == [
        'server "a": has no "command" or "url"',
        'server "b": command: must name a program, and is empty',
        'server "a": unknown key "comand" is ignored; did you mean "command"?',
    ]


def test_a_disabled_server_is_checked_but_not_expanded(tmp_path: Path) -> None:
    entry = {"command": "${NOPE}", "args": "x", "disabled": True}
    assert problems(tmp_path, {"mcpServers": {"it": entry}}) == [
        'server "it": args: must be a list of strings, not a string'
    ]


def test_two_servers_with_one_public_part(tmp_path: Path) -> None:
    from mcpx.names import server_part

    strange = "my server"
    part = server_part(strange)
    assert problems(tmp_path, {"mcpServers": {strange: {"command": "x"}, part: {"command": "y"}}}) == [
        f'servers "{strange}" and "{part}" would both show their tools as "{part}__..."; rename one'
    ]


def test_no_secret_in_any_message(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        {
            "mcpServers": {
                "a": {
                    "command": "x",
                    "env": {"A": ["hush-1"], "B": {"hush": "hush-2"}, "C": "${NOPE:-hush-3", "D": "${NO PE:-hush-4}"},
                },
                "b": {"url": "ftp://hush-5:hush-6@h/?hush-7", "headers": {"X": "hush-8\n"}},
            }
        },
    )
    assert len(found) == 6
    assert "hush-" not in "\n".join(found)


# -- limits

_SECONDS = "a number of seconds from"


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ('{"startTimeout": 0}', f"limits.startTimeout: 0 is not valid; valid is {_SECONDS} 0.001 to 604800"),
        ('{"startTimeout": -1}', f"limits.startTimeout: -1 is not valid; valid is {_SECONDS} 0.001 to 604800"),
        ('{"startTimeout": true}', f"limits.startTimeout: true is not valid; valid is {_SECONDS} 0.001 to 604800"),
        ('{"startTimeout": "60"}', f'limits.startTimeout: "60" is not valid; valid is {_SECONDS} 0.001 to 604800'),
        ('{"startTimeout": NaN}', f"limits.startTimeout: NaN is not valid; valid is {_SECONDS} 0.001 to 604800"),
        ('{"startTimeout": 1e999}', f"limits.startTimeout: Infinity is not valid; valid is {_SECONDS} 0.001 to 604800"),
        ('{"startTimeout": null}', f"limits.startTimeout: null is not valid; valid is {_SECONDS} 0.001 to 604800"),
        ('{"maxInstances": 0}', "limits.maxInstances: 0 is not valid; valid is a whole number from 1 to 1024"),
        ('{"maxInstances": 1.5}', "limits.maxInstances: 1.5 is not valid; valid is a whole number from 1 to 1024"),
        (
            '{"maxFrame": 1023}',
            "limits.maxFrame: 1023 is not valid; valid is a whole number of bytes from 1024 to 1073741824",
        ),
        ('{"callTimeout": [1]}', f"limits.callTimeout: a list is not valid; valid is {_SECONDS} 0.001 to 604800"),
        (
            '{"callTimeout": {"idle": 0}}',
            f"limits.callTimeout.idle: 0 is not valid; valid is {_SECONDS} 0.001 to 604800",
        ),
        ('{"callTimeout": 7200}', "limits.callTimeout: idle (7200) must not be over total (3600)"),
        ('{"exitBudget": 0.2}', f"limits.exitBudget: 0.2 is not valid; valid is {_SECONDS} 0.3 to 604800"),
    ],
)
def test_a_limit_that_is_wrong(tmp_path: Path, limits: str, problem: str) -> None:
    assert problems(tmp_path, f'{{"limits": {limits}, "mcpServers": {{}}}}') == [problem]
    if "exitBudget" not in limits:  # which is the gateway's own
        within = f'{{"mcpServers": {{"it": {{"command": "x", "limits": {limits}}}}}}}'
        assert problems(tmp_path, within) == [f'server "it": {problem}']


def test_a_server_s_limits_must_fit_the_general_ones(tmp_path: Path) -> None:
    document = {
        "limits": {"callTimeout": {"total": 400}},
        "mcpServers": {"it": {"command": "x", "limits": {"callTimeout": 500}}},
    }
    assert problems(tmp_path, document) == ['server "it": limits.callTimeout: idle (500) must not be over total (400)']


# -- warnings


@pytest.mark.parametrize(
    ("document", "warning"),
    [
        ({"mcpServers": {}}, "mcpServers: lists no server"),
        ({"mcpServers": {"a": {"command": "x", "disabled": True}}}, "mcpServers: every server is disabled"),
        (
            {"mcpServers": {"a": {"command": "x"}}, "limit": {}},
            'unknown key "limit" is ignored; did you mean "limits"?',
        ),
        ({"mcpServers": {"a": {"command": "x"}}, "inputs": []}, 'unknown key "inputs" is ignored'),
        (
            {"mcpServers": {"a": {"command": "x"}}, "probe_delay": 1},
            'unknown key "probe_delay" is ignored; did you mean "limits.probeDelay"?',
        ),
        (
            {"mcpServers": {"a": {"comand": "x", "command": "x"}}},
            'server "a": unknown key "comand" is ignored; did you mean "command"?',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "inherit_env": True}}},
            'server "a": unknown key "inherit_env" is ignored; did you mean "inheritEnv"?',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "startTimeout": 5}}},
            'server "a": unknown key "startTimeout" is ignored; did you mean "limits.startTimeout"?',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "limits": {"startTimout": 5}}}},
            'server "a": limits: unknown key "startTimout" is ignored; did you mean "startTimeout"?',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "limits": {"callTimeout": {"totl": 5}}}}},
            'server "a": limits.callTimeout: unknown key "totl" is ignored; did you mean "total"?',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "limits": {"maxInFlight": 5}}}},
            'server "a": limits.maxInFlight: has no effect within a server; '
            'it belongs into "limits" at the top of the file',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "inheritEnv": ["HOME", "NOPE"]}}},
            'server "a": inheritEnv: the environment variable NOPE is not set, so there is none to inherit',
        ),
        (
            {"mcpServers": {"a": {"command": "~/bin/x"}}},
            'server "a": command: there is no shell to make a folder of "~"; write "${HOME}"',
        ),
        (
            {"mcpServers": {"a": {"command": "npx -y some-server"}}},
            'server "a": command: is the name of one program; what follows "npx" probably belongs into "args"',
        ),
        (
            {"mcpServers": {"a": {"command": "x", "cwd": "~"}}},
            'server "a": cwd: there is no shell to make a folder of "~"; write "${HOME}"',
        ),
        ({"mcpServers": {"a": {"url": "http://h/", "cwd": "/"}}}, 'server "a": cwd: has no effect beside "url"'),
        (
            {"mcpServers": {"a": {"url": "tcp://h:1", "headers": {}}}},
            'server "a": headers: has no effect with a tcp:// URL',
        ),
        ({"mcpServers": {"a": {"command": "x", "headers": {}}}}, 'server "a": headers: has no effect beside "command"'),
    ],
)
def test_what_is_only_odd(tmp_path: Path, document: Any, warning: str) -> None:
    assert warnings(tmp_path, document) == [warning]
