"""Stacked bars as a figure of the plotting library: a bar a line, because names are longer than bars are wide."""

from __future__ import annotations

from typing import Any

from fallline.document.figures import Mark, StackedBars
from fallline.document.html.charts import COLOURS, plain


def bars_figure(figure: StackedBars) -> dict[str, Any]:
    """One trace for each section, with nothing where a bar has no such section."""
    traces: list[dict[str, Any]] = []
    listed: list[dict[str, Any]] = []
    for at, name in enumerate(figure.sections):
        colour = f"@series-{at % COLOURS + 1}"
        values = [sum(part.value for part in bar.parts if part.name == name) for bar in figure.bars]
        shown = [f"{figure.amount(value)} {figure.unit}" if value else "" for value in values]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": plain(name),
                "x": values,
                "y": [plain(bar.name) for bar in figure.bars],
                "text": [plain(words) for words in shown],
                "textposition": "inside",
                "textangle": 0,
                "insidetextanchor": "middle",
                "hovertemplate": "%{y}<br>%{fullData.name}: %{text}<extra></extra>",
                "marker": {"color": colour, "line": {"color": "@page", "width": 1}},
            }
        )
        listed.append({"name": name, "colour": colour, "dash": "tile", "traces": [at]})
    layout = {
        "barmode": "stack",
        "xaxis": {
            "title": {"text": plain(figure.unit), "standoff": 10},
            "range": [0, 1.08 * max([figure.longest, *(mark.y for mark in figure.limits_shown)], default=1.0)],
            "showgrid": True,
        },
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False, "ticks": ""},
        "shapes": [_limit(mark) for mark in figure.limits_shown],
        "annotations": [_limit_name(mark) for mark in figure.limits_shown],
        "hovermode": "closest",
        "uniformtext": {"mode": "hide", "minsize": 9},
    }
    return {"kind": "bars", "traces": traces, "layout": layout, "series": listed, "rows": len(figure.bars)}


def _limit(mark: Mark) -> dict[str, Any]:
    line = {"color": "@muted", "width": 1.2, "dash": "4px,3px"}
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": mark.y, "x1": mark.y, "line": line}


def _limit_name(mark: Mark) -> dict[str, Any]:
    return {
        "text": plain(mark.text), "yref": "paper", "x": mark.y, "y": 1, "yanchor": "bottom", "showarrow": False,
        "font": {"color": "@muted"},
    }  # fmt: skip
