"""HTML from text: escaping, elements, and names for files and anchors."""

from __future__ import annotations

import html
import json
import re
from typing import Any


def text(value: str) -> str:
    """The text, with everything escaped that HTML reads as more than text, in attributes too."""
    return html.escape(value, quote=True)


def prose(value: str) -> str:
    """A sentence, in which what stands between backticks is code.

    >>> prose("`race --minutes 6` goes on if 1 < 2")
    '<code>race --minutes 6</code> goes on if 1 &lt; 2'
    """
    return re.sub("`([^`]+)`", r"<code>\1</code>", text(value))


def opening(tag: str, **attributes: str | None) -> str:
    """The start of an element; attributes are escaped, and left out where they are None."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{text(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>"


def element(tag: str, inner: str = "", **attributes: str | None) -> str:
    """An element around HTML.

    >>> element("a", text("<b>"), href='"x"', aria_label=None)
    '<a href="&quot;x&quot;">&lt;b&gt;</a>'
    """
    return f"{opening(tag, **attributes)}{inner}</{tag}>"


def island(identity: str, data: Any) -> str:
    """Data for scripts, written so that no text in it can end the element."""
    written = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="{text(identity)}">{written}</script>'


def file_name(words: str) -> str:
    """Words as a name for a file.

    >>> file_name("Time to target, in s: <adan>")
    'time_to_target_in_s_adan'
    """
    return re.sub(r"[^a-z0-9.]+", "_", words.lower()).strip("_.") or "table"
