"""Gateways that know nothing of MCP: the limits of what one can do. Each is a script, started by ``rig.gateways``.

``copying.py`` moves bytes in two threads. ``bare_stdio.py`` and ``bare_http.py`` are on Trio, as mcpx is, and do what
each gateway must: take frames apart as far as their ids, give them others, and put them together again.
"""
