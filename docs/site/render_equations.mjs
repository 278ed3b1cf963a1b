// Reads a list of [TeX, display] in JSON, writes the list of their HTML: node render_equations.mjs KATEX
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { default: katex } = await import(pathToFileURL(process.argv[2]).href);
const equations = JSON.parse(readFileSync(0, "utf8"));
const made = equations.map(([tex, display]) => katex.renderToString(tex, { displayMode: display, throwOnError: true, strict: "ignore" }));
process.stdout.write(JSON.stringify(made));
