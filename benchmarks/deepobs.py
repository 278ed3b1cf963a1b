"""Do our optimizers reproduce DeepOBS's published results?  ``python -m benchmarks.deepobs``

quadratic_deep, ten seeds, at the published tuned settings; Welch's t-test against the published mean and standard
deviation of ten seeds.  The batch orders are our own: the published ones came from TensorFlow.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

import torch

import fallline
from fallline.training.scheduled_optimizer import ScheduledOptimizer
from fallline.training.training import Training
from fallline.workloads.quadratic_deep import PUBLISHED, workload

SEEDS = range(42, 52)
ALPHA = 0.02
"""The error of the whole table: each of its three tests gets a third."""


def final_test_loss(method: str, seed: int) -> float:
    """At a constant rate, after all epochs."""
    name, settings, _, _ = PUBLISHED[method]
    task = workload()

    def prepare(model: torch.nn.Module) -> ScheduledOptimizer:
        return ScheduledOptimizer(fallline.create(name, model.parameters(), **settings))

    training = Training(task, seed, prepare)
    training.advance(task.max_steps)
    return training.evaluate()


def p_value(finals: Sequence[float], mean: float, std: float, count: int = 10) -> float:
    """Welch's test of our finals against a published mean and standard deviation."""
    from scipy.stats import ttest_ind_from_stats

    ours = statistics.fmean(finals), statistics.stdev(finals), len(finals)
    return float(ttest_ind_from_stats(*ours, mean, std, count, equal_var=False).pvalue)


def main() -> None:
    torch.set_num_threads(1)
    differ = []
    print("method     ours              published         p")
    for method, (_, _, mean, std) in PUBLISHED.items():
        finals = [final_test_loss(method, seed) for seed in SEEDS]
        p = p_value(finals, mean, std)
        ours = f"{statistics.fmean(finals):.3f} ± {statistics.stdev(finals):.3f}"
        print(f"{method:9s}  {ours}    {mean:.3f} ± {std:.3f}    {p:.3f}")
        if p < ALPHA / len(PUBLISHED):
            differ.append(method)
    print(f"Different from the published: {', '.join(differ)}." if differ else "No difference from the published.")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
