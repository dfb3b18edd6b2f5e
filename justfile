# List the recipes.
default:
    @just --list

# Everything a change must pass: lint, types, tests.
test:
    python -m tests

# Lint and types only.
check:
    ruff check .
    ruff format --check .
    pyright

# Unit tests only: about a minute.
unit:
    python -m pytest tests/unit

# The official conformance suite through mcpx, server leg and client leg: a few minutes.
conformance *arguments:
    python -m tests.conformance {{arguments}}

# All benchmarks, the peers among them: half an hour on a machine that does nothing else. --quick for a first look.
bench *arguments:
    python bench {{arguments}}
