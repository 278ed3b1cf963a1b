"""AdamW whose step takes a given time longer: a difference that a profile must find."""

import os
import time
from typing import Any

import fallline

EXTRA_SECONDS = float(os.environ.get("FALLLINE_BENCH_EXTRA_SECONDS", "0"))


class SlowAdamW(fallline.AdamW):
    def step(self, closure: Any = None) -> Any:
        found = super().step(closure)
        # Processor time, so that a busy machine does not make the difference smaller.
        until = time.thread_time() + EXTRA_SECONDS
        while time.thread_time() < until:
            pass
        return found
