"""The official conformance suite, through mcpx in both directions. See ``docs/conformance.md``."""
