"""Figures that a page shows as pictures: landscapes, strips and intervals."""

from __future__ import annotations

import base64

from fallline.document.figures import Figure, Intervals, Landscape, Strip
from fallline.document.html.descriptions import description
from fallline.document.html.tags import element, file_name, opening, text
from fallline.document.picture import png

STILLS = (Landscape, Strip, Intervals)


def still(figure: Figure) -> str:
    source = f"data:image/png;base64,{base64.b64encode(png(figure)).decode('ascii')}"
    picture = opening("img", src=source, alt=description(figure), class_="still", loading="lazy")
    link = element("a", "PNG", href=source, download=f"{file_name(figure.name)}.png", class_="tool")
    head = element("h3", text(figure.title)) + element("div", link, class_="tools")
    return element("section", element("div", head, class_="bar") + picture, class_="block")
