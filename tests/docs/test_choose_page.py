"""The page of decisions is written from our own races, and is the current one."""

from __future__ import annotations

from tests.docs.pages import DOCS, writer_of


def test_the_page_is_current() -> None:
    assert (DOCS / "choose.md").read_text(encoding="utf-8") == writer_of("choose").page(), "run `make docs`"


def test_the_data_of_the_gallery_are_those_of_the_leaderboard() -> None:
    writer_of("leaderboard")  # puts the scripts on the path
    import gallery_leaderboard

    assert gallery_leaderboard.FILE.read_text(encoding="utf-8") == gallery_leaderboard.text(), "run `make leaderboard`"
