// Starts the page, and starts its content again when that was replaced.

function start() {
  const content = document.getElementById("content");
  const data = JSON.parse(document.getElementById("data").textContent);
  initFigures(content, data);
  initTables(content, data);
  initCopying(content);
  initTabs(content);
  drawVisible();
}

function renew(html) {
  // The text comes from our own server and is made like the page itself; scripts in it would not run in any case.
  const fresh = new DOMParser().parseFromString(html, "text/html");
  const place = [scrollX, scrollY];
  const focused = document.activeElement?.id;
  for (const element of drawn.keys()) globalThis.Plotly.purge(element);
  drawn.clear();
  document.getElementById("content").replaceWith(document.importNode(fresh.getElementById("content"), true));
  document.getElementById("data").textContent = fresh.getElementById("data").textContent;
  start();
  scrollTo(...place);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
}

initTheme();
start();
initLive(renew);
addEventListener("beforeprint", toPaper);
addEventListener("afterprint", fromPaper);
// A browser that prints does not wait for the library to be unpacked.
if (Object.keys(figures).length) (globalThis.requestIdleCallback ?? setTimeout)(() => { loadPlotting(); });
