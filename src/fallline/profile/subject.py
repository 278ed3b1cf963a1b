"""The trained workload as a results file describes it, so that whoever reads the file runs nobody's code.

The number of parameters stands with the facts of each arm, because it is known when a model has been made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from fallline.profile.plan import Plan
from fallline.workloads import LOWER, Workload
from fallline.workloads.loading import comes_with_fallline
from fallline.workloads.workload import About


@dataclasses.dataclass(frozen=True)
class Subject:
    name: str
    model: str
    """In a few words, ``GPT, 4 × 256, 3.3 M parameters``; empty if the workload does not say."""
    data: str
    metric: str
    direction: str = LOWER
    draws_labels: bool = False
    """Whether estimates of curvature have labels that are drawn from the model."""

    @classmethod
    def of(cls, workload: Workload) -> Subject:
        model = "" if workload.about.model == About().model else workload.about.model
        return cls(
            workload.name,
            model,
            workload.data_name,
            workload.metric,
            workload.direction,
            workload.sampled_loss is not None,
        )

    @classmethod
    def defined(cls, data: Mapping[str, Any]) -> Subject:
        """From its definition in a results file."""
        return cls(**data)

    def definition(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def described(self, parameters: int | None) -> str:
        """The model in words.

        >>> Subject("mine", "", "my data", "loss").described(3_300_000)
        'a model of 3,300,000 parameters'
        """
        if self.model:
            return self.model
        return "a model" if parameters is None else f"a model of {parameters:,} parameters"


def undescribed(plan: Plan) -> Subject:
    """The subject of a file from before files described it: fallline's own workload, or a name and no more."""
    if comes_with_fallline(plan.workload):
        return Subject.of(plan.loaded())
    return Subject(plan.workload, "", "not in this file", "metric")


def missing_note(plan: Plan) -> str:
    """The note that a report has where a file says nothing of a user's workload; empty if nothing is missing."""
    if comes_with_fallline(plan.workload):
        return ""
    return (
        f"an earlier fallline wrote this file without the names of the metric and the data; a report does not run "
        f"{plan.workload} to find them, and the same `fallline profile` command adds them"
    )
