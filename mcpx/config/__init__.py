"""Finding, reading and checking configuration files.

A file is read whole, and every mistake in it is said at once. What comes out (``mcpx.settings``) needs neither the file
nor the environment any more.
"""

from __future__ import annotations

from mcpx.config.load import DEMO, Loaded, load
from mcpx.config.redact import Redactor, redact_url, secrets_of

__all__ = ["DEMO", "Loaded", "Redactor", "load", "redact_url", "secrets_of"]
