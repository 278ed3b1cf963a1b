"""A document in Markdown."""

from __future__ import annotations

from fallline.document.markdown import markdown
from tests.document import DOCUMENT


def test_tables_lists_and_code() -> None:
    assert markdown(DOCUMENT) == (
        "### A race\n\n- Two contestants.\n\n#### a race\n\n"
        "| name | time to target | ms per step | studies reached | range | bytes |\n"
        "| :-- | --: | --: | --: | --: | --: |\n"
        "| adamw | 10.8 s | 26.9 | 3 of 3 | 10.10 to 10.80 | 8 → 2.03 |\n"
        "| a\\|b | – | 0.33 ! | 0 of 3 | 9.50 to – | ~4 |\n\n"
        "#### winner\n\n| size | 1 | 2 |\n| --: | :-- | :-- |\n| 100 | a 3× | tie |\n| 20000 | ! |  |\n\n"
        "- lr: 0.1\n- the machine was busy\n\n```python\nx = 1\ny = 2\n```\n\n"
        "- Take adamw. (data 3ff3f2eeb0 in r.sqlite)\n"
    )
