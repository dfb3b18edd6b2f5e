"""Fields that the tables share for tasks, which were in the protocol in one revision alone (its
basic/utilities/tasks).
"""

from __future__ import annotations

from mcpx.spec.fields import may, need
from mcpx.spec.revisions import V2025_11_25

ONLY = (V2025_11_25, V2025_11_25)  # the revisions from which and up to which
ASKED = may("task", *ONLY, of="TaskMetadata")  # in a request: that it be run as a task
STATE = (  # what is said of a task, by itself or as a notification
    need("taskId", *ONLY),
    need("status", *ONLY),
    may("statusMessage", *ONLY),
    need("createdAt", *ONLY),
    need("lastUpdatedAt", *ONLY),
    need("ttl", *ONLY),
    may("pollInterval", *ONLY),
)
