"""Writing a server in Python functions: an upstream inside the process.

An ``App`` speaks the newest form of the protocol only; hosts of every other revision get it through the same edges as
any other server. ``docs/embedding-servers.md`` shows how one is written.
"""

from mcpx.app.app import App
from mcpx.app.content import (
    Audio,
    BlobContents,
    Content,
    EmbeddedResource,
    Image,
    Message,
    ResourceLink,
    Text,
    TextContents,
)
from mcpx.app.context import Context
from mcpx.app.errors import ToolError
from mcpx.app.items import Hints
from mcpx.app.serve import run_app

__all__ = [
    "App",
    "Audio",
    "BlobContents",
    "Content",
    "Context",
    "EmbeddedResource",
    "Hints",
    "Image",
    "Message",
    "ResourceLink",
    "Text",
    "TextContents",
    "ToolError",
    "run_app",
]
