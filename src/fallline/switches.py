"""The words that an environment variable may have to switch something on or off."""

from __future__ import annotations

import os

ON, OFF = ("", "1", "true", "yes", "on"), ("0", "false", "no", "off")


def is_off(variable: str) -> bool:
    """Whether an environment variable says no; one that is not set does not."""
    return os.environ.get(variable, "").lower() in OFF
