"""``fallline gallery``: figures, their page, and input that cannot work."""

from __future__ import annotations

import html
import json
import sys
from pathlib import Path

import pytest

from tests.cli import Command

pytest.importorskip("matplotlib")
pytest.importorskip("plotly")


def test_figures_and_one_page_are_written(fallline: Command, tmp_path: Path) -> None:
    ended = fallline("gallery", "speedrun", "losses", "--out", str(tmp_path / "g"), "--json")
    assert ended.code == 0
    data = json.loads(ended.out)
    assert list(data["figures"]) == ["speedrun", "losses"]
    for found in data["figures"].values():
        assert set(found) == {"title", "caption", "numbers", "data", "files"}
        assert all(Path(file).stat().st_size > 0 for file in found["files"])
    page = Path(data["page"]).read_text(encoding="utf-8")
    assert html.escape(data["figures"]["losses"]["caption"]) in page and "The NanoGPT speedrun" in page
    assert 'src="http' not in page and 'href="http' not in page, "it asks no server"


def test_pictures_of_pages_have_words_for_who_does_not_see_them(fallline: Command, tmp_path: Path) -> None:
    assert fallline("gallery", "language_and_vision", "--out", str(tmp_path), "--quiet").code == 0
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'src="data:image/png;base64,' in page and "ratio of steps. chars (language): 1." in page


def test_the_list_has_every_figure(fallline: Command) -> None:
    from fallline.gallery.catalogue import NAMES

    assert [one["name"] for one in json.loads(fallline("gallery", "--list", "--json").out)] == list(NAMES)


def test_rosenbrock_takes_other_optimizers_and_rates(fallline: Command, tmp_path: Path) -> None:
    ended = fallline("gallery", "rosenbrock", "-o", "adan", "--lr", "0.01", "--out", str(tmp_path), "--json")
    numbers = json.loads(ended.out)["figures"]["rosenbrock"]["numbers"]
    assert list(numbers["ends"]) == ["adan"] and numbers["lr"] == 0.01


def test_unknown_names_get_the_nearest(fallline: Command, tmp_path: Path) -> None:
    ended = fallline("gallery", "speedrum", "--out", str(tmp_path / "g"))
    assert ended.code == 2 and "'speedrum'; did you mean speedrun?" in ended.err and ended.err.count("\n") == 1
    assert not (tmp_path / "g").exists(), "nothing was begun"
    ended = fallline("gallery", "rosenbrock", "-o", "adamv", "--out", str(tmp_path / "g"))
    assert ended.code == 2 and "--optimizer: there is no optimizer" in ended.err and "did you mean" in ended.err


def test_a_folder_that_cannot_be_is_refused_before_any_work(fallline: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ended = fallline("gallery", "--out", str(tmp_path / "file"))
    assert ended.code == 2 and "this is a file; name a folder" in ended.err
    ended = fallline("gallery", "--out", str(tmp_path / "file" / "below"))
    assert ended.code == 2 and "name another folder" in ended.err and "of 12" not in ended.err


def test_a_figure_that_cannot_be_written_ends_it_in_one_line(fallline: Command, tmp_path: Path) -> None:
    (tmp_path / "losses.png").mkdir()
    ended = fallline("gallery", "losses", "--out", str(tmp_path), "--quiet")
    assert ended.code == 2 and "could not be written" in ended.err and "Traceback" not in ended.err


def test_logs_that_are_not_there_are_bad_input(fallline: Command, tmp_path: Path) -> None:
    ended = fallline("gallery", "algoperf", "--logs", str(tmp_path / "nowhere"), "--out", str(tmp_path), "--quiet")
    assert ended.code == 2 and "nowhere" in ended.err


def test_without_matplotlib_it_says_what_to_install(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("fallline.document.picture.available", lambda: False)
    ended = fallline("gallery", "losses", "--out", str(tmp_path / "g"))
    assert ended.code == 2 and "pip install" in ended.err and not (tmp_path / "g").exists()


def test_no_display_and_no_fonts_of_the_system_are_needed(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """matplotlib brings a font of its own, and figures are drawn without a window."""
    import matplotlib.font_manager

    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    monkeypatch.setattr(matplotlib.font_manager, "findSystemFonts", lambda *_, **__: [])
    assert fallline("gallery", "losses", "--out", str(tmp_path), "--quiet").code == 0
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
