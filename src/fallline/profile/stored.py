"""A results file of ``fallline profile`` as a document for a page: with its runs and the command."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from fallline.document.blocks import Document
from fallline.measure.store import StoreError
from fallline.profile.document import document
from fallline.profile.results import Results
from fallline.workloads import BUILT_IN


def stored_document(path: Path) -> Document:
    """Of a profile on a built-in workload: a results file may come from anybody, and must not name code to run."""
    with Results(path, writable=False) as results:
        own = [plan.workload for plan in results.plans() if plan.workload not in BUILT_IN]
        if own:
            raise StoreError(
                f"{path}: a profile of {own[0]}, a file that a report does not run; `fallline profile --show` shows it"
            )
        made = document(results)
        command = results.command()
    facts = [("to repeat it", shlex.join(["fallline", *command]))] if command else []
    return dataclasses.replace(made, provenance=dataclasses.replace(made.provenance, facts=facts))
