"""What stands between the two edges: exchanges, the catalogue, public names, changes. Compares no revisions.

``open_gateway`` is the way in, for a host edge and for a program that embeds mcpx alike.
"""

from mcpx.gateway.gateway import Gateway, Page, Part, open_gateway

__all__ = ["Gateway", "Page", "Part", "open_gateway"]
