// Sorts the table, and draws its rows: parallel coordinates of all parameters, or a scatter plot of two columns.
"use strict";

const table = document.querySelector("table");
const body = table.tBodies[0];
const rows = [...body.rows];
const cells = rows.map((row) => [...row.cells].map((cell) => cell.textContent));
const heads = [...table.tHead.rows[0].cells];
const [state, seconds] = ["state", "seconds"].map((name) => heads.findIndex((head) => head.textContent === name));
const columns = heads.map((head, index) => ({
  head,
  index,
  name: head.textContent,
  isParameter: index < state, // a parameter with one value for all points comes after it
  isResult: state < index && index < seconds,
  isNumber: isNumeric(cells.map((row) => row[index])),
}));
for (const { index } of columns.filter(({ isNumber }) => isNumber)) {
  for (const { cells: own } of table.rows) own[index].classList.add("number");
}

function isNumeric(texts) {
  const given = texts.filter((text) => !["", "NaN", "Infinity", "-Infinity"].includes(text));
  return given.length > 0 && given.every((text) => Number.isFinite(Number(text)));
}

// ---- sorting

const order = new Intl.Collator(undefined, { numeric: true });
let sorted = { index: heads.findIndex((head) => head.ariaSort), way: heads.some((head) => head.ariaSort === "descending") ? -1 : 1 };

function sortBy(index, way) {
  sorted = { index, way };
  const { isNumber } = columns[index];
  const keyed = rows.map((row, at) => ({ row, key: isNumber ? Number(cells[at][index] || NaN) : cells[at][index] }));
  const isEmpty = (key) => (isNumber ? Number.isNaN(key) : key === "");
  keyed.sort((a, b) => {
    if (isEmpty(a.key) || isEmpty(b.key)) return isEmpty(a.key) - isEmpty(b.key);
    return way * (isNumber ? a.key - b.key : order.compare(a.key, b.key));
  });
  body.replaceChildren(...keyed.map(({ row }) => row));
  for (const { head } of columns) head.removeAttribute("aria-sort");
  columns[index].head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
}

for (const { head, index, name } of columns) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => sortBy(index, sorted.index === index ? -sorted.way : 1));
  head.replaceChildren(button);
}

// ---- the chart

const NONE = "–"; // instead of a value that a point does not have
const [HEIGHT, TOP, BOTTOM, RIGHT, NARROWEST, ROW] = [340, 34, 40, 28, 96, 64]; // pixels
const ENDED = ["SUCCEEDED", "PRUNED", "FAILED", "STOPPED"];
const figure = document.querySelector("figure");
const [place, legend, caption] = figure.querySelectorAll("#picture, #legend, figcaption");
const hint = caption.textContent;
const [chart, across, up, colour] = figure.querySelectorAll("select");
const varies = ({ index }) => new Set(cells.map((row) => row[index])).size > 1;
const objective = sorted.index < 0 ? undefined : columns[sorted.index];
const values = columns.filter(({ isResult, isNumber }) => isNumber && isResult);
if (!values.length) values.push(...columns.filter(({ name, isNumber }) => isNumber && name === "seconds"));
// the objective is first; a number of steps, for example, may not vary
values.sort((a, b) => (b === objective) - (a === objective) || varies(b) - varies(a));
const parameters = columns.filter((column) => column.isParameter && varies(column));
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "12px system-ui, sans-serif";
const widthOf = (text) => ruler.measureText(text).width;

// Leaves out the middle of a text that is wider than so many pixels: names often differ at their ends.
function shortened(text, most) {
  const letters = [...text];
  let [short, kept] = [text, Math.min(letters.length, 80)];
  while (kept > 1 && widthOf(short) > most) {
    kept -= 1;
    short = `${letters.slice(0, Math.ceil(kept / 2)).join("")}…${letters.slice(letters.length - Math.floor(kept / 2)).join("")}`;
  }
  return short;
}

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Yields lists of round numbers from low to high as texts, from many to few.
function* roundNumbers(low, high, isLog) {
  const size = (number) => Math.floor(Math.log10(Math.abs(number)));
  const text = (number) => (number && (size(number) < -4 || size(number) > 5) ? number.toExponential() : String(number));
  const within = (numbers) => numbers.filter((number) => low <= number && number <= high).map((number) => text(Number(number.toPrecision(12))));
  const decades = Array.from({ length: isLog ? size(high) - size(low) + 1 : 0 }, (_, number) => 10 ** (size(low) + number));
  for (const factors of isLog ? [[1, 2, 5], [1, 3], [1]] : []) yield within(decades.flatMap((decade) => factors.map((factor) => factor * decade)));
  for (let every = 2; every < decades.length; every += 1) yield within(decades.filter((_, number) => number % every === 0));
  for (let most = isLog ? 0 : 10; most > 0; most -= 1) {
    const unit = 10 ** size((high - low) / most);
    const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= (0.999 * (high - low)) / most);
    yield within(Array.from({ length: most + 2 }, (_, number) => (Math.ceil(low / step) + number) * step));
  }
}

// Returns the scale of a column: a text's place from 0 to 1, and lists of texts for ticks, the preferred list first.
function scaleOf({ index, isNumber }, shown) {
  const isGiven = (text) => text !== "" && (!isNumber || Number.isFinite(Number(text)));
  const texts = [...new Set(shown.map((at) => cells[at][index]))];
  const given = texts.filter(isGiven).sort(isNumber ? (a, b) => a - b : order.compare);
  const begin = given.length < texts.length ? 0.14 : 0; // points without a value are at 0
  const ticks = given.length <= (isNumber ? 12 : 60) ? [given] : [];
  const places = new Map(given.map((text, number) => [text, number]));
  let level = (text) => places.get(text);
  if (isNumber) {
    const numbers = given.map(Number);
    const [low, high] = [numbers[0], numbers.at(-1)];
    const below = numbers.filter((number) => number < low / 2 + high / 2).length / numbers.length;
    const isLog = low > 0 && high / low >= 8 && below >= (high / low >= 100 ? 0.6 : 0.7);
    level = isLog ? Math.log10 : Number;
    if (high > low) ticks.push(...roundNumbers(low, high, isLog));
  }
  for (let every = 1 + Math.ceil(given.length / 60); every < 2 * given.length; every *= 2) ticks.push(given.filter((_, number) => number % every === 0));
  const [first, last] = [level(given[0]), level(given.at(-1))];
  const part = (text) => (last > first ? (level(text) / 2 - first / 2) / (last / 2 - first / 2) : 0.5); // a difference may be infinite
  const at = (text) => (isGiven(text) ? begin + (1 - begin) * part(text) : 0);
  return { at, low: given[0], high: given.at(-1), ticks: [...ticks, []].map((list) => (begin ? [NONE, ...list] : list)) };
}

let lines = []; // of the points that are drawn: {at: number of the row, points: [[x, y], ...]}
let hot = null; // the path of the point that is looked at
let looked = -1; // its number in lines

const pathOf = ({ points }) => (points.length > 1 ? `M${points.join("L")}` : `M${points[0]}h0`);

function draw() {
  const isLines = chart.value === "lines";
  for (const { parentElement } of [across, up]) parentElement.hidden = isLines;
  const value = columns[colour.value];
  const axes = isLines ? [...parameters, value] : [columns[across.value], columns[up.value]];
  const shown = rows.map((_, at) => at).filter((at) => ENDED.includes(cells[at][state]) || cells[at][value.index] !== "");
  const scales = axes.map((axis) => scaleOf(axis, shown));
  const hasValue = (at) => Number.isFinite(parseFloat(cells[at][value.index]));
  const shade = scaleOf(value, shown.filter(hasValue));
  const isBestLow = value === objective && sorted.way > 0;

  // upright axes side by side, or, where they have no room, flat axes one below the other
  const width = Math.max(place.clientWidth, 200);
  const isFlat = isLines && width / axes.length < NARROWEST;
  const isAcross = (number) => isFlat || (!isLines && number === 0);
  const height = isFlat ? ROW * axes.length : HEIGHT;
  const labels = scales[isLines ? 0 : 1].ticks[0].map(widthOf);
  const left = isFlat ? 8 : Math.min(Math.max(40, ...labels, isLines ? widthOf(axes[0].name) - 14 : 0), 0.25 * width, 150) + 12;
  const [wide, high] = [width - left - RIGHT, HEIGHT - TOP - BOTTOM];
  const gap = wide / Math.max(axes.length - 1, 1);
  const spot = (number, part) => {
    const x = isAcross(number) ? left + part * wide : left + (isLines ? number * gap : 0);
    const y = isFlat ? 26 + number * ROW : TOP + (isAcross(number) ? 1 : 1 - part) * high;
    return [x, y].map((pixel) => Math.round(10 * pixel) / 10);
  };

  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": true });
  const texts = element("g", {}); // above the lines
  const write = (x, y, anchor, text, most) => texts.append(element("text", { x, y, "text-anchor": anchor }, shortened(text, most)));
  axes.forEach(({ name }, number) => {
    const [[x, y], [endX, endY]] = [spot(number, 0), spot(number, 1)];
    svg.append(element("path", { class: "axis", d: `M${x},${y}L${endX},${endY}` }));
    if (isFlat) write(x, y - 9, "start", name, wide);
    else if (isLines) write(endX + 6, 14, "end", name, number ? gap - 6 : left + 6);
    else if (number) write(4, 14, "start", name, width);
    else write(width - 4, HEIGHT - 4, "end", name, width);
    let marks = [];
    for (const list of scales[number].ticks) {
      const most = isAcross(number) ? Math.max(60, wide / list.length - 12) : (isLines && number ? gap : left) - 12;
      marks = list.map((text) => {
        const [short, [markX, markY]] = [shortened(text, most), spot(number, scales[number].at(text === NONE ? "" : text))];
        const half = widthOf(short) / 2; // a text does not leave the picture
        return isAcross(number) ? [Math.min(Math.max(markX, half), width - half), markY + 16, short, half + 6] : [markX - 6, markY + 4, short, 8];
      });
      const isRoomy = ([x1, y1, , half], at) => !at || Math.hypot(x1 - marks[at - 1][0], y1 - marks[at - 1][1]) >= half + marks[at - 1][3];
      if (marks.every(isRoomy)) break;
    }
    for (const [markX, markY, short] of marks) write(markX, markY, isAcross(number) ? "middle" : "end", short, Infinity);
  });

  lines = shown.map((at) => {
    const parts = scales.map((scale, number) => spot(number, scale.at(cells[at][axes[number].index])));
    return { at, points: isLines ? parts : [[parts[0][0], parts[1][1]]] };
  });
  const crowd = Math.max(1, Math.min(lines.length / 150, isLines ? 2 : 1.5));
  const thickness = (isLines ? 1.6 : 8) / crowd;
  for (const line of [...lines].reverse()) {
    const isBest = rows[line.at].classList.contains("best");
    const part = shade.at(cells[line.at][value.index]);
    const path = element("path", { d: pathOf(line), "stroke-width": thickness + 2 * isBest, "stroke-opacity": isBest ? 1 : 0.8 / crowd });
    if (hasValue(line.at)) path.style.stroke = `color-mix(in oklch, var(--strong) ${100 * (isBestLow ? 1 - part : part)}%, var(--weak))`;
    svg.append(path);
    const [x, y] = line.points.at(-1);
    if (isBest) texts.append(element("text", { class: "star", x: x + 6, y: y + 6 }, "★"));
  }
  hot = element("path", { class: "hot", "stroke-width": thickness + 2 });
  svg.append(hot, texts);
  place.replaceChildren(svg);
  place.ariaLabel = `${axes.at(-1).name} by ${axes.slice(0, -1).map(({ name }) => name).join(", ")}: ${lines.length} points; arrow keys go from point to point`;
  const ends = [shade.low, shade.high].map((text) => text ?? "");
  [legend.children[0].textContent, legend.children[2].textContent] = isBestLow ? ends.reverse() : ends;
  legend.children[3].hidden = !body.querySelector(".best");
  legend.children[4].hidden = shown.every(hasValue);
}

// Returns the number of the line next to a place, -1 if none is near.
function nearest(x, y) {
  let [found, least] = [-1, 24];
  lines.forEach(({ points }, number) => {
    for (let end = Math.min(1, points.length - 1); end < points.length; end += 1) {
      const [[ax, ay], [bx, by]] = [points[Math.max(end - 1, 0)], points[end]];
      const part = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2 || 1);
      const kept = Math.min(Math.max(part, 0), 1);
      const far = Math.hypot(ax + kept * (bx - ax) - x, ay + kept * (by - ay) - y);
      if (far < least) [found, least] = [number, far];
    }
  });
  return found;
}

function mark(number) {
  looked = number;
  document.querySelector("tr.hot")?.classList.remove("hot");
  const line = lines[number];
  hot.setAttribute("d", line ? pathOf(line) : "");
  caption.textContent = hint;
  if (!line) return;
  rows[line.at].classList.add("hot");
  const told = columns.filter(({ index, isParameter, isResult }) => (isParameter || isResult || index === state) && cells[line.at][index] !== "");
  caption.textContent = told.map(({ index, name }) => `${name} ${cells[line.at][index]}`).join(", ");
}

if (values.length && parameters.length) {
  const drawn = columns.filter((column) => varies(column) && !["job", "error"].includes(column.name));
  for (const [select, list, first] of [[across, drawn, parameters[0]], [up, drawn, values[0]], [colour, values, values[0]]]) {
    for (const { name, index } of list) select.append(new Option(name, index, false, index === first.index));
  }
  chart.parentElement.hidden = parameters.length < 2;
  if (parameters.length < 2) chart.value = "dots";
  figure.hidden = false;
  figure.addEventListener("change", draw);
  draw();
  new ResizeObserver(draw).observe(place);
  const goTo = () => document.querySelector("tr.hot")?.scrollIntoView({ block: "center" });
  place.addEventListener("pointermove", (event) => {
    const { x, y } = place.firstChild.getBoundingClientRect();
    mark(nearest(event.clientX - x, event.clientY - y));
  });
  place.addEventListener("pointerleave", () => mark(-1));
  place.addEventListener("click", goTo);
  place.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter") goTo();
    if (step === undefined) return;
    event.preventDefault();
    mark((looked + step + lines.length) % lines.length);
  });
  table.addEventListener("pointerover", (event) => {
    const at = rows.indexOf(event.target.closest("tr"));
    mark(lines.findIndex((line) => line.at === at));
  });
}
