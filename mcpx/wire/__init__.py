"""Bytes to JSON-RPC frames and back: the envelope, newline framing, and the correlation of request ids.

No I/O, no clock and no randomness in here, and nothing of MCP but the rules that hold for every frame. Bytes and values go
in, values and bytes come out; the rooms above move them.
"""
