"""Pages that are written from data, and the scripts that write them."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def writer_of(name: str) -> ModuleType:
    """The script ``docs/NAME_page.py`` as a module."""
    spec = importlib.util.spec_from_file_location(f"{name}_page", DOCS / f"{name}_page.py")
    assert spec is not None and spec.loader is not None
    if str(DOCS) not in sys.path:  # where it is when the script is run
        sys.path.append(str(DOCS))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
