"""A results file of ``fallline step`` as a document for a page: with its roofline, its runs, and the command."""

from __future__ import annotations

import dataclasses
import json
import shlex
from pathlib import Path

from fallline.document.blocks import Document
from fallline.step.document import Report
from fallline.step.results import Results
from fallline.step.stored_plan import stored_plan


def stored_document(path: Path) -> Document:
    with Results(path, writable=False) as results:
        plan = stored_plan(results)
        made = Report(plan, results).document()
        runs = results.store.rows("select started, command from run order by id")
    facts = [("started", ", ".join(row["started"].replace("T", " ").replace("Z", " UTC")[:16] for row in runs))]
    arguments = json.loads(runs[-1]["command"]).get("arguments") or []
    if arguments:
        facts.append(("to repeat it", shlex.join(["fallline", *map(str, arguments)])))
    return dataclasses.replace(made, provenance=dataclasses.replace(made.provenance, facts=facts))
