"""What does a gateway cost on the whole way, from the host to the upstream and back?

Every gateway, every way that it has, every pair of eras, in one run. ``README.md`` beside this file says what is
measured and how to read it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from rig.gateways import ERAS, WAYS, ByteRelay, Cell, Gateway, Mcpx, NoGateway, TrioRelay
from rig.loads import WrongAnswerError
from rig.machine import machine, require_linux
from rig.peers import FastMCP, NodeMcpProxy, PyMcpProxy, Supergateway
from rig.process import interruptible
from rig.relayed import CPU, LARGE, LOAD, P50, P99, RATE, RESIDENT, START, UPSTREAM, Row, Rows
from rig.report import Report, add_outputs, write_outputs
from rig.rounds import Series, quantile, turns
from rig.started import FailedError, started

IN_FLIGHT = 64
GATEWAYS: list[type[Gateway]] = [
    NoGateway,
    ByteRelay,
    TrioRelay,
    Mcpx,
    FastMCP,
    PyMcpProxy,
    NodeMcpProxy,
    Supergateway,
]


def measure(row: Row, seconds: float) -> None:
    """Start the gateway anew, and measure all of it once."""
    try:
        with started(row.gateway, row.cell) as gateway:
            load = gateway.load
            load.check()
            meters = {"gateway": gateway.cpu, "upstream": gateway.upstream_cpu}
            flow = load.throughput(IN_FLIGHT, seconds, meters)  # first, since some gateways must get warm
            taken = load.latencies(seconds)
            row.add(P50, quantile(taken, 0.5) * 1e3)
            row.add(P99, quantile(taken, 0.99) * 1e3)
            row.add(RATE, flow.rate)
            row.add(CPU, flow.meters["gateway"] / flow.calls * 1e6)
            row.add(UPSTREAM, flow.meters["upstream"] / flow.calls * 1e6)
            row.add(LOAD, flow.own_cpu / flow.calls * 1e6)
            row.add(START, gateway.seconds * 1e3)
            row.add(RESIDENT, gateway.resident())
            try:
                row.add(LARGE, Series(load.large(seconds)).median * 1e3)
            except (WrongAnswerError, OSError) as error:
                row.fail(f"a result of 1 MB: {error}")
    except FailedError as error:
        row.fail(str(error))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    ways, gateways = [str(way) for way in WAYS], [gateway.name for gateway in GATEWAYS]
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, metavar="WAY", help=", ".join(ways))
    parser.add_argument(
        "--gateways", nargs="+", choices=gateways, default=gateways, metavar="NAME", help=", ".join(gateways)
    )
    parser.add_argument("--rounds", type=int, help="how often each gateway is started and measured (5)")
    parser.add_argument("--seconds", type=float, help="for each measurement of a round (0.4)")
    parser.add_argument("--quick", action="store_true", help="one round of 0.2 seconds each, for a first look")
    add_outputs(parser)
    found = parser.parse_args()
    found.rounds = found.rounds or (1 if found.quick else 5)
    found.seconds = found.seconds or (0.2 if found.quick else 0.4)
    return found


def run(asked: argparse.Namespace) -> None:
    gateways = [make() for make in GATEWAYS if make.name in asked.gateways]
    for gateway in gateways:
        try:
            gateway.install()
        except (ModuleNotFoundError, subprocess.SubprocessError) as error:
            notes: list[str] = getattr(error, "__notes__", [])
            sys.exit("\n".join([f"{gateway.name} cannot be installed, --gateways can leave it out: {error}", *notes]))
    versions = {gateway.name: version for gateway in gateways if (version := gateway.version())}
    report = Report("relay", machine(), versions, vars(asked))
    print(report.heading(), flush=True)
    cells = [Cell(way, eras) for way in WAYS if str(way) in asked.ways for eras in ERAS]
    rows = [Row(gateway, cell) for cell in cells for gateway in gateways]
    for row in rows:
        if refusal := row.gateway.refusal(row.cell):
            row.fail(refusal)
    tried = [row for row in rows if not row.failures]
    for number, row in enumerate(turns(tried, asked.rounds), start=1):
        if sys.stderr.isatty():  # whoever waits wants to know for how long
            print(f"\r{number} of {len(tried) * asked.rounds}", end=" ", file=sys.stderr, flush=True)
        if not row.hopeless:
            measure(row, asked.seconds)
    found = Rows(rows)
    found.fill(report)
    print(f"{found.tables()}\n\n{found.ratios()}")
    write_outputs(asked, report, found.picture(IN_FLIGHT))


def main() -> None:
    require_linux()
    with interruptible():
        run(options())


if __name__ == "__main__":
    main()
