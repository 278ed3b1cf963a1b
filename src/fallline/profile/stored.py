"""A results file of ``fallline profile`` as a document for a page: with its runs and the command."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from fallline.document.blocks import Document
from fallline.measure.store import StoreError
from fallline.profile.document import document
from fallline.profile.results import Results
from fallline.workloads.loading import comes_with_fallline


def stored_document(path: Path) -> Document:
    """The document of a profile on a workload of fallline's, because a file from anybody must not name code to run."""
    with Results(path, writable=False) as results:
        own = [plan.workload for plan in results.plans() if not comes_with_fallline(plan.workload)]
        if own:
            raise StoreError(
                f"{path}: a profile of {own[0]}, which names a file that a report neither runs nor reads; "
                "`fallline profile --show` shows it"
            )
        made = document(results)
        command = results.command()
    facts = [("to repeat it", shlex.join(["fallline", *command]))] if command else []
    return dataclasses.replace(made, provenance=dataclasses.replace(made.provenance, facts=facts))
