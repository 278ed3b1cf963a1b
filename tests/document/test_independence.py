"""Documents know no verb: everything may build one, and renderers serve all."""

from __future__ import annotations

import ast
from pathlib import Path

import fallline.document

FOLDER = Path(fallline.document.__file__).parent


def imported(path: Path) -> set[str]:
    """Modules of fallline that a file imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.split(".")[0] == "fallline"}


def test_documents_import_nothing_else_of_the_project() -> None:
    files = sorted(FOLDER.rglob("*.py"))
    assert len(files) > 8
    for path in files:
        assert all(name.startswith("fallline.document") for name in imported(path)), path.name


def test_verbs_do_not_choose_a_renderer() -> None:
    """The command line does; a report is a page, or a cell of a notebook; a tracker takes tables in its own forms."""
    renderers = {f"fallline.document.{name}" for name in ("terminal", "markdown", "csv", "json", "picture")}
    for path in FOLDER.parent.rglob("*.py"):
        inside = path.relative_to(FOLDER.parent).parts[0]
        if inside not in ("cli", "document", "logs", "report"):
            assert not imported(path) & renderers, path


def test_verbs_do_not_import_the_command_line() -> None:
    for path in FOLDER.parent.rglob("*.py"):
        if path.relative_to(FOLDER.parent).parts[0] not in ("cli", "__main__.py"):
            assert not any(name.startswith("fallline.cli") for name in imported(path)), path
