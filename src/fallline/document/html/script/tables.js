// Tables that sort by a click on a heading, filter by words, and are saved as CSV.

const tableState = new Map(); // table → {column, direction, words}, which outlives an update of the page

function valueOf(row, column) {
  const given = row.cells[column].dataset.value;
  if (given === undefined) return null;
  const number = Number(given);
  return given.trim() === "" || Number.isNaN(number) ? given : number;
}

function compared(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sortTable(table, original, state) {
  const body = table.tBodies[0];
  const rows = [...original];
  const sign = state.direction === "descending" ? -1 : 1;
  if (state.direction !== "none") {
    rows.sort((a, b) => {
      const [x, y] = [valueOf(a, state.column), valueOf(b, state.column)];
      if (x === null || y === null) return (x === null) - (y === null); // what is missing comes last, either way
      return sign * compared(x, y);
    });
  }
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, at) => {
    cell.setAttribute("aria-sort", at === state.column ? state.direction : "none");
  });
}

function filterTable(table, rows, words, count) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every((word) => text.includes(word));
    shown += !row.hidden;
  }
  if (count) count.textContent = wanted.length ? `${shown} of ${rows.length}` : "";
}

function initTables(scope, data) {
  for (const block of scope.querySelectorAll(".block.table")) {
    const table = block.querySelector("table");
    const rows = [...table.tBodies[0].rows];
    const state = tableState.get(table.id) || { column: -1, direction: "none", words: "" };
    tableState.set(table.id, state);
    if (table.tHead) {
      [...table.tHead.rows[0].cells].forEach((cell, column) => {
        const button = cell.querySelector("button");
        if (!button) return;
        button.addEventListener("click", () => {
          const next = { none: "ascending", ascending: "descending", descending: "none" };
          state.direction = state.column === column ? next[state.direction] : "ascending";
          state.column = column;
          sortTable(table, rows, state);
        });
      });
      if (state.direction !== "none") sortTable(table, rows, state);
    }
    const input = block.querySelector("input[type=search]");
    const count = block.querySelector(".count");
    if (input) {
      input.value = state.words;
      input.addEventListener("input", () => { state.words = input.value; filterTable(table, rows, state.words, count); });
      if (state.words) filterTable(table, rows, state.words, count);
    }
    const { name, csv } = data.tables[table.id];
    block.querySelector(".csv").addEventListener("click", () => save(`${name}.csv`, csv, "text/csv"));
  }
}
