// Figures: drawn by the plotting library when they come into view, with a legend of buttons, and saved as files.

const MOST_BANDS = 6;
const PAPER_WIDTH = 660; // pixels of a chart on A4 or Letter, between margins
const hiddenSeries = new Map(); // figure → names of series that the reader has switched off
const drawn = new Map(); // element → its figure
let figures = {};
let plotting = null; // a promise of the library
let onPaper = false; // while the page is printed

function loadPlotting() {
  plotting ||= (async () => {
    const packed = document.getElementById("library").textContent;
    const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    return globalThis.Plotly;
  })();
  return plotting;
}

function merged(base, more) {
  const found = { ...base };
  for (const [key, value] of Object.entries(more)) {
    const both = value && found[key] && typeof value === "object" && typeof found[key] === "object" && !Array.isArray(value);
    found[key] = both ? merged(found[key], value) : value;
  }
  return found;
}

function baseLayout(size, height) {
  const axis = {
    gridcolor: "@rule", linecolor: "@muted", tickcolor: "@muted", zeroline: false, ticks: "outside", ticklen: 4,
    automargin: true, tickfont: { color: "@muted", size }, title: { font: { color: "@muted", size } },
  };
  return {
    height, autosize: true, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, size, color: "@ink" },
    margin: { l: 12, r: 14, t: 30, b: 12, pad: 0 },
    hoverlabel: { bgcolor: "@surface", bordercolor: "@rule", font: { color: "@ink", size } },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    xaxis: { ...axis, showgrid: false, showline: true }, yaxis: axis,
  };
}

function isShown(id, name) {
  return !(hiddenSeries.get(id) || new Set()).has(name);
}

function bandsOf(id, figure) {
  return figure.series.filter((series) => series.band && isShown(id, series.name));
}

// The ends of the horizontal axis: those to which the reader has zoomed, or those of the figure.
function rangeOf(figure, zoomed) {
  const { type, range } = figure.layout.xaxis;
  const [low, high] = zoomed?.xaxis.range || range;
  return type === "log" ? [10 ** low, 10 ** high] : [low, high];
}

function plotOf(id, figure, { scheme, height, size, columns, zoomed, exported }) {
  const colours = resolver(scheme);
  const visible = new Map();
  for (const series of figure.series) for (const at of series.traces) visible.set(at, isShown(id, series.name));
  // More bands than eyes can take apart would hide the lines; they come back as lines are switched off.
  const banded = bandsOf(id, figure);
  if (banded.length > MOST_BANDS) for (const series of banded) for (const at of series.band) visible.set(at, false);
  const shown = (trace) => (figure.kind === "chart" ? thinned(trace, rangeOf(figure, zoomed), figure.layout.xaxis.type === "log", columns) : trace);
  const traces = figure.traces.map((trace, at) => ({ ...shown(trace), visible: visible.get(at) ?? true, legendgroup: trace.name }));
  let layout = merged(baseLayout(size, height), figure.layout);
  if (zoomed) layout = merged(layout, zoomed);
  if (exported) layout = merged(layout, exported);
  const found = colours.resolved({ data: traces, layout }, "");
  colours.done();
  return found;
}

function heightOf(width, figure) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  if (figure.kind === "map") return (figure.rows * 3.4 + 6) * rem;
  if (figure.kind === "bars") return (figure.rows * 2.6 + 5) * rem;
  return Math.max(19 * rem, Math.min(0.5 * width, 28 * rem));
}

// The part of a chart to which the reader has zoomed, which a new drawing keeps.
function zoomOf(element, figure) {
  if (figure.kind !== "chart" || drawn.get(element) !== figure) return undefined;
  const { xaxis, yaxis } = element.layout;
  return { xaxis: { range: [...xaxis.range] }, yaxis: { range: [...yaxis.range] } };
}

async function draw(element) {
  const figure = figures[element.id];
  const Plotly = await loadPlotting();
  if (!element.isConnected) return;
  const size = 0.82 * parseFloat(getComputedStyle(document.documentElement).fontSize);
  const width = onPaper ? PAPER_WIDTH : element.clientWidth;
  const columns = Math.ceil(width * devicePixelRatio);
  const paper = onPaper ? { scheme: "light", exported: { width, autosize: false } } : {};
  const { data, layout } = plotOf(element.id, figure, { height: heightOf(width, figure), size, columns, zoomed: zoomOf(element, figure), ...paper });
  await Plotly.react(element, data, layout, { displayModeBar: false, responsive: true, doubleClick: "reset" });
  if (!drawn.has(element)) element.on("plotly_relayout", (change) => { if (Object.keys(change).some((key) => key.startsWith("xaxis"))) draw(element); });
  drawn.set(element, figure);
  element.closest(".figure").querySelector(".hint").hidden = bandsOf(element.id, figure).length <= MOST_BANDS;
  element.style.minHeight = "0"; // the room that was kept for it
  element.dataset.drawn = "true";
}

function inView(element) {
  const box = element.getBoundingClientRect();
  return box.width > 0 && box.top < innerHeight + 400 && box.bottom > -400;
}

function drawVisible() {
  for (const element of document.querySelectorAll(".plot")) {
    if (figures[element.id] && element.dataset.drawn === undefined && inView(element)) {
      element.dataset.drawn = "begun";
      draw(element);
    }
  }
}

// What is out of sight is drawn when it comes into view, because what has no width cannot be drawn.
function redrawAll() {
  for (const element of document.querySelectorAll(".plot")) delete element.dataset.drawn;
  drawVisible();
}

// Draws everything for paper, before the browser lays the page out for it: also what tabs hide, which needs a size for that.
function toPaper() {
  onPaper = true;
  document.documentElement.classList.add("paper");
  for (const element of document.querySelectorAll(".plot")) {
    element.dataset.drawn ??= "begun";
    draw(element);
  }
}

function fromPaper() {
  onPaper = false;
  document.documentElement.classList.remove("paper");
  redrawAll();
}

function toggle(block, id, name, alone) {
  const names = figures[id].series.filter((series) => !series.extends).map((series) => series.name);
  let hidden = hiddenSeries.get(id) || new Set();
  if (alone) hidden = new Set(hidden.size === names.length - 1 && !hidden.has(name) ? [] : names.filter((one) => one !== name));
  else if (!hidden.delete(name)) hidden.add(name);
  hiddenSeries.set(id, hidden);
  for (const button of block.querySelectorAll(".legend button")) {
    button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.name)));
  }
  const element = document.getElementById(id);
  if (drawn.has(element)) draw(element);
}

// The library's symbols, for the legend.
const DOTS = {
  circle: "M15 5a4 4 0 1 1-8 0a4 4 0 1 1 8 0z", square: "M7.5 1.5h7v7h-7z", diamond: "M11 0l5 5l-5 5l-5-5z",
  "triangle-up": "M11 0.5l4.6 8.5h-9.2z", x: "M8 0.5l3 3l3-3l1.5 1.5l-3 3l3 3l-1.5 1.5l-3-3l-3 3l-1.5-1.5l3-3l-3-3z",
  star: "M11 0l1.5 3.4l3.6 0.4l-2.7 2.4l0.8 3.6l-3.2-1.9l-3.2 1.9l0.8-3.6l-2.7-2.4l3.6-0.4z",
};

function swatch(series) {
  const dash = series.dash === "solid" ? "" : series.dash.replaceAll("px", "");
  const colour = `var(--${series.colour.slice(1)})`;
  const namespace = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("width", "22");
  svg.setAttribute("height", "10");
  svg.setAttribute("aria-hidden", "true");
  const filled = series.dash === "tile" || series.dash === "dot";
  const shape = document.createElementNS(namespace, { tile: "rect", dot: "path" }[series.dash] ?? "line");
  const given = {
    tile: { x: 5, y: 0.5, width: 12, height: 9, rx: 2, stroke: "var(--muted)", "stroke-width": 0.5 },
    dot: { d: DOTS[series.symbol] },
  }[series.dash] ?? { x1: 0, x2: 22, y1: 5, y2: 5, "stroke-width": 2.5, "stroke-dasharray": dash };
  for (const [key, value] of Object.entries(given)) shape.setAttribute(key, value);
  shape.style[filled ? "fill" : "stroke"] = colour;
  svg.append(shape);
  return svg;
}

function initLegend(block, id, figure) {
  const legend = block.querySelector(".legend");
  const listed = figure.series.filter((series) => !series.extends);
  if (listed.length < 2) { legend.remove(); return; }
  for (const series of listed) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.name = series.name;
    button.title = "Click hides or shows it, a double click shows it alone";
    button.setAttribute("aria-pressed", String(isShown(id, series.name)));
    button.append(swatch(series), series.name);
    button.addEventListener("click", (event) => { if (event.detail < 2) toggle(block, id, series.name, false); });
    button.addEventListener("dblclick", () => { toggle(block, id, series.name, true); });
    legend.append(button);
  }
}

function edgesOf(figure, series, y) {
  if (series.band) return series.band.map((at) => numbersOf(figure.traces[at].y));
  const error = figure.traces[series.line].error_y;
  if (!error) return [[], []];
  const [above, below] = [numbersOf(error.array), numbersOf(error.arrayminus)];
  return [y.map((value, at) => value - below[at]), y.map((value, at) => value + above[at])];
}

function figureRows(figure) {
  if (figure.kind === "map") {
    const rows = [["column", "row", "text"]];
    for (const trace of figure.traces) {
      trace.y.forEach((row, j) => trace.x.forEach((column, i) => {
        if (trace.z[j][i] !== null) rows.push([column, row, trace.text[j][i].replaceAll("<br>", "; ")]);
      }));
    }
    return rows;
  }
  if (figure.kind === "bars") {
    const rows = figure.traces.flatMap((trace, at) => trace.y.map((bar, j) => [bar, figure.series[at].name, trace.x[j]]));
    return [["bar", "part", "value"], ...rows];
  }
  const rows = [["series", "x", "y", "low", "high"]];
  for (const series of figure.series) {
    const [x, y] = [numbersOf(figure.traces[series.line].x), numbersOf(figure.traces[series.line].y)];
    const [low, high] = edgesOf(figure, series, y);
    for (let at = 0; at < x.length; at += 1) rows.push([series.name, x[at], y[at], low[at], high[at]]);
  }
  return rows;
}

async function saveFigure(id, form) {
  const figure = figures[id];
  if (form === "csv") { save(`${figure.name}.csv`, csvOf(figureRows(figure)), "text/csv"); return; }
  const Plotly = await loadPlotting();
  const [width, height] = [960, figure.kind === "chart" ? 560 : 160 + 64 * figure.rows];
  const exported = {
    width, height, autosize: false, paper_bgcolor: "#ffffff", showlegend: figure.kind !== "map", margin: { t: 76, r: 24, l: 24, b: 24 },
    title: { text: figure.title.replaceAll("&", "&amp;").replaceAll("<", "&lt;"), x: 0.02, xanchor: "left", y: 0.97, yanchor: "top" },
    legend: { x: 1.02, y: 1 },
  };
  const plot = plotOf(id, figure, { scheme: "light", size: 14, height, columns: 2 * width, exported });
  const url = await Plotly.toImage(plot, { format: form, width, height, scale: form === "png" ? 2 : 1 });
  save(`${figure.name}.${form}`, url);
}

function initFigures(scope, data) {
  figures = data.figures;
  const seen = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) drawVisible(); }, { rootMargin: "400px" });
  for (const block of scope.querySelectorAll(".block.figure")) {
    const element = block.querySelector(".plot");
    // A continuation goes with the line that it continues.
    const { series } = figures[element.id];
    series.forEach((one, at) => { if (one.extends) series[at - 1].traces.push(...one.traces); });
    initLegend(block, element.id, figures[element.id]);
    for (const button of block.querySelectorAll(".save")) {
      button.addEventListener("click", () => saveFigure(element.id, button.dataset.form));
    }
    seen.observe(element);
  }
}
