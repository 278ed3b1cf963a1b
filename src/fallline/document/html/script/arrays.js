// Arrays of numbers as the page keeps them, and the points of a long line that a screen can show.

const decoded = new Map(); // text → numbers: lines often share their steps

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

function numbersOf(packed) {
  if (Array.isArray(packed)) return packed;
  if (!decoded.has(packed.bdata)) decoded.set(packed.bdata, new Float64Array(bytesOf(packed.bdata).buffer));
  return decoded.get(packed.bdata);
}

// The first place whose number is not below.
function firstFrom(x, low) {
  let [start, end] = [0, x.length];
  while (start < end) {
    const middle = (start + end) >> 1;
    if (x[middle] < low) start = middle + 1; else end = middle;
  }
  return start;
}

function rises(x) {
  for (let at = 1; at < x.length; at += 1) if (!(x[at] >= x[at - 1])) return false;
  return true;
}

// Of each column of pixels the first, the lowest, the highest and the last point: their line covers the same pixels as
// the line through all points. One more on either side leads out of the picture.
function placesShown(x, y, [low, high], log, columns) {
  const start = Math.max(0, firstFrom(x, low) - 1);
  let end = firstFrom(x, high);
  while (end < x.length && x[end] <= high) end += 1;
  end = Math.min(x.length, end + 1);
  const [from, to] = log ? [Math.log(low), Math.log(high)] : [low, high];
  const columnOf = (value) => Math.floor((((log ? Math.log(value) : value) - from) / (to - from)) * columns);
  const places = [];
  for (let at = start; at < end;) {
    const column = columnOf(x[at]);
    let [lowest, highest, last] = [at, at, at];
    for (let next = at + 1; next < end && columnOf(x[next]) === column; next += 1) {
      if (y[next] < y[lowest] || Number.isNaN(y[lowest])) lowest = next;
      if (y[next] > y[highest] || Number.isNaN(y[highest])) highest = next;
      last = next;
    }
    for (const place of [at, Math.min(lowest, highest), Math.max(lowest, highest), last]) {
      if (place !== places.at(-1)) places.push(place);
    }
    at = last + 1;
  }
  return places;
}

// A line as it was, or with the points that can be seen; dots stay as they are, because each stands for a measurement.
function thinned(trace, range, log, columns) {
  if (trace.mode !== "lines" || trace.type !== "scatter") return trace;
  const x = numbersOf(trace.x);
  if (x.length <= 4 * columns || !rises(x)) return trace;
  const y = numbersOf(trace.y);
  const places = placesShown(x, y, range, log, columns);
  const taken = (numbers) => Float64Array.from(places, (place) => numbers[place]);
  return { ...trace, x: taken(x), y: taken(y) };
}
