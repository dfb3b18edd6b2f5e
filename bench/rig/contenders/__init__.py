"""Who takes part in the framing benchmark. One more is one more entry in the table of ``roster``."""
