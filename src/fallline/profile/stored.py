"""A results file of ``fallline profile`` as a document for a page: with its runs and the command."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

from fallline.document.blocks import Document
from fallline.profile.document import document
from fallline.profile.results import Results


def stored_document(path: Path) -> Document:
    """The document of a profile; a file from anybody may name code, which is not run."""
    with Results(path, writable=False) as results:
        made = document(results)
        command = results.command()
    facts = [("to repeat it", shlex.join(["fallline", *command]))] if command else []
    return dataclasses.replace(made, provenance=dataclasses.replace(made.provenance, facts=facts))
