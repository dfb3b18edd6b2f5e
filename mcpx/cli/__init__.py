"""The command line: ``mcpx serve``, ``check``, ``discover``, ``revisions``, ``demo``.

``main`` names the commands and what they take; each command's body is a file of its own, imported when it is run.
"""
