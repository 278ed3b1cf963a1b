// Colours of the page's style as the plotting library wants them: "@series-1/0.2" becomes "rgba(0, 114, 178, 0.2)".

const COLOUR_KEYS = new Set(["color", "fillcolor", "bgcolor", "bordercolor", "gridcolor", "linecolor", "tickcolor"]);

function resolver(scheme) {
  const probe = document.createElement("span");
  probe.hidden = true;
  if (scheme) probe.style.colorScheme = scheme;
  document.body.append(probe);
  const known = new Map();
  const colour = (name) => {
    if (!known.has(name)) {
      const [variable, alpha] = name.slice(1).split("/");
      probe.style.color = `var(--${variable})`;
      const parts = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3);
      known.set(name, alpha ? `rgba(${parts.join(", ")}, ${alpha})` : `rgb(${parts.join(", ")})`);
    }
    return known.get(name);
  };
  // Only where a colour belongs: a contestant may be called "@ink".
  const resolved = (value, key) => {
    if (typeof value === "string") return COLOUR_KEYS.has(key) && value.startsWith("@") ? colour(value) : value;
    if (key === "colorscale") return value.map(([at, name]) => [at, colour(name)]);
    if (Array.isArray(value)) return value.map((one) => resolved(one, key));
    if (value === null || typeof value !== "object" || ArrayBuffer.isView(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, resolved(one, name)]));
  };
  return { colour, resolved, done: () => probe.remove() };
}

function initTheme() {
  const root = document.documentElement;
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const button = document.getElementById("theme");
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.setAttribute("aria-label", `Use ${isDark() ? "light" : "dark"} colours`); };
  try { const kept = localStorage.getItem("fallline-theme"); if (kept === "light" || kept === "dark") root.dataset.theme = kept; } catch { /* storage is off */ }
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("fallline-theme", root.dataset.theme); } catch { /* storage is off */ }
    name();
    redrawAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { name(); redrawAll(); });
  name();
}
