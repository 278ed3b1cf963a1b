"""``make statistics``: how often the verdicts of `fallline step` are right, with real arms on this machine.

20 runs of AdamW against itself, where every "faster" is wrong, and 20 against the same step over a tenth more
tensors, where "not distinguishable" misses a true 10 %. The simulations in tests/measure/test_calibration.py bound
the same rates with many more runs of made-up noise.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import sys
from collections.abc import Sequence
from typing import Any

import torch

import fallline
from benchmarks.arms import HYPERS, tensors
from benchmarks.settings import RESULTS
from benchmarks.steps import note, share_states
from benchmarks.store import save
from fallline.measure import machine
from fallline.measure.interleave import LOOKS, Samples, interleave, until_decided
from fallline.measure.stats import ALPHA, POWER, compare, sentence, spread

TENSORS, MORE, ELEMENTS = 20, 2, 262_144
FAMILY = 90
"""As one comparison among those of a table of 30 cells and 3 implementations."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step_statistics", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each kind (default 20)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout, and nothing else")
    chosen = parser.parse_args()
    same = [_run(seed, TENSORS) for seed in range(chosen.runs)]
    planted = [_run(seed, TENSORS + MORE) for seed in range(chosen.runs)]
    result = {
        "machine": machine.describe(),
        "same": _counted("the same step twice", same),
        "planted": _counted("the same step, and one over 10 % more tensors", planted),
        "runs": {"same": same, "planted": planted},
    }
    save(RESULTS / "step_statistics.json", result)
    if chosen.json:
        json.dump(result, sys.stdout, indent=1)
        return 0
    print(in_words(result["same"], result["planted"]))
    return 0


def _run(seed: int, tensors_of_second: int) -> dict[str, Any]:
    params = tensors([(ELEMENTS,)] * (TENSORS + MORE), seed)
    first = fallline.AdamW(params[:TENSORS], **HYPERS)
    second = fallline.AdamW(params[:tensors_of_second], **HYPERS)
    first.step()
    second.step()
    share_states([first, second], params[:TENSORS])  # as `fallline step` does: other memory is another speed
    rule = until_decided(["first", "second"], seconds=math.inf, family=FAMILY)
    samples = interleave({"first": first.step, "second": second.step}, rule, seed=seed, sample_seconds=0.0)
    found = _verdict(samples)
    note(f"{seed}: {found['sentence']}; {samples.rounds} rounds, {samples.stopped}")
    del params, first, second
    gc.collect()
    return {**found, "stopped": samples.stopped, "noise": [spread(s) for s in samples.seconds.values()]} | {
        "seconds": samples.seconds
    }


def _verdict(samples: Samples) -> dict[str, Any]:
    found = compare(samples.seconds["first"], samples.seconds["second"], looks=len(LOOKS))
    return {
        "alone": found.p <= ALPHA,
        "in_table": found.p * FAMILY <= ALPHA,
        "ratio": found.ratio.value,
        "sentence": sentence("first", "second", found),
    }


def _counted(what: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    noise = sorted(value for run in runs for value in run["noise"])
    return {
        "what": what,
        "runs": len(runs),
        "called_different": sum(run["alone"] for run in runs),
        "called_different_as_one_of_90": sum(run["in_table"] for run in runs),
        "median_noise": noise[len(noise) // 2],
    }


def in_words(same: dict[str, Any], planted: dict[str, Any]) -> str:
    """The counts, and whether they are compatible with what is promised."""
    wrong, runs = same["called_different"], same["runs"]
    chance = _at_least(wrong, runs, ALPHA)
    missed = planted["runs"] - planted["called_different"]
    miss_chance = _at_least(missed, planted["runs"], 1 - POWER)
    return (
        f"A step against itself was called different in {wrong} of {runs} runs "
        f"(at least as many happen with probability {chance:.2f} at {ALPHA:.0%}). "
        f"A step with 10 % more work was called different in {planted['called_different']} of {planted['runs']} runs, "
        f"and in {planted['called_different_as_one_of_90']} as one of 90 comparisons "
        f"(at least {missed} misses happen with probability {miss_chance:.2f} at {1 - POWER:.0%}). "
        f"Median deviation of samples: {same['median_noise']:.1%} and {planted['median_noise']:.1%}; "
        f"{torch.get_num_threads()} threads."
    )


def _at_least(count: int, trials: int, chance: float) -> float:
    return sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(count, trials + 1))


if __name__ == "__main__":
    sys.exit(main())
