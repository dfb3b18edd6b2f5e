"""How long a server that keeps failing is left alone. A plain function: no clock, no randomness of its own."""

from __future__ import annotations

# What was open for so many seconds is opened again at once; what lasted less counts as a failure, so that a server that
# accepts a stream and drops it at once is not asked again and again.
HEALTHY = 10.0


def restart_delay(failures: int, step: float, cap: float, jitter: float) -> float:
    """Seconds before the next start after ``failures`` ends in a row without a healthy run between.

    The first restart after a healthy run is immediate: a server that crashes now and then is back at once. From then on
    each failure adds ``step``, never past ``cap``. ``jitter`` (0 to 1, drawn by the caller) takes off up to a tenth, so
    that many gateways do not restart one shared resource in step.
    """
    return min(step * max(failures - 1, 0), cap) * (1 - 0.1 * jitter)
