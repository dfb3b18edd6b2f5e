"""What the benchmarks share: the machine, rounds, reports, charts, processes and frames. See ``bench/README.md``."""
