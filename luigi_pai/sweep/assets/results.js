// Sorts the table, and draws its rows: a scatter plot of one parameter, parallel coordinates of several.
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
let sorted = { index: -1, way: 1 };

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

// ---- the picture

const SHADES = 12;
const [HEIGHT, TOP, BOTTOM, LEFT, RIGHT, LEAST] = [320, 34, 26, 60, 40, 84];
const figure = document.querySelector("figure");
const place = document.getElementById("picture");
const caption = figure.querySelector("figcaption");
const chosen = document.getElementById("value");
const varies = ({ index }) => new Set(cells.map((row) => row[index])).size > 1;
const values = columns.filter(({ isResult, isNumber }) => isNumber && isResult);
values.sort((a, b) => varies(b) - varies(a)); // a number of steps, for example, may not vary
if (!values.length) values.push(...columns.filter(({ name, isNumber }) => isNumber && name === "seconds"));
const parameters = columns.filter((column) => column.isParameter && varies(column));
const digits = (number) => {
  const size = Math.abs(number);
  return number && (size < 0.001 || size >= 1e6) ? number.toExponential(1) : String(Number(number.toPrecision(3)));
};

function element(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// Returns the scale of a column: a value's place from 0 to 1, and its ticks.
function scaleOf({ index, isNumber }, shown) {
  const texts = [...new Set(shown.map((at) => cells[at][index]))];
  if (!isNumber) {
    texts.sort(order.compare);
    const step = 1 / Math.max(texts.length - 1, 1);
    const places = new Map(texts.map((text, number) => [text, texts.length > 1 ? number * step : 0.5]));
    const every = Math.ceil(texts.length / 12);
    const ticks = texts.filter((_, number) => number % every === 0).map((text) => [places.get(text), text || "–"]);
    return { at: (text) => places.get(text), ticks };
  }
  const numbers = texts.filter((text) => text !== "").map(Number).filter(Number.isFinite);
  const [low, high] = numbers.reduce(([a, b], number) => [Math.min(a, number), Math.max(b, number)], [Infinity, -Infinity]);
  const isLog = low > 0 && high / low >= 100;
  const bend = isLog ? Math.log10 : (number) => number;
  const [first, last] = [bend(low), bend(high)];
  const at = (text) => {
    const number = text === "" ? NaN : Number(text);
    if (!Number.isFinite(number)) return NaN;
    return last > first ? (bend(number) - first) / (last - first) : 0.5;
  };
  const own = numbers.length <= 8 ? numbers : [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const level = first + part * (last - first);
    return isLog ? 10 ** level : level;
  });
  return { at, ticks: own.map((number) => [at(String(number)), digits(number)]) };
}

let lines = []; // of the rows that are drawn: {at: number of the row, points: [[x, y], ...]}
let hot = null;

function pathOf({ points }) {
  if (points.length === 1) return `M${points[0][0]},${points[0][1]}h0`;
  return `M${points.map(([x, y]) => `${x},${y}`).join("L")}`;
}

function draw() {
  const value = values.find(({ index }) => index === Number(chosen.value)) ?? values[0];
  const isScatter = parameters.length === 1;
  const axes = [...parameters, value];
  const shown = rows.map((_, at) => at).filter((at) => Number.isFinite(parseFloat(cells[at][value.index])));
  const scales = axes.map((axis) => scaleOf(axis, shown));
  const width = Math.max(place.parentElement.clientWidth, isScatter ? 0 : LEAST * axes.length);
  const [across, down] = [width - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
  const x = (part) => Math.round(10 * (LEFT + part * across)) / 10;
  const y = (part) => Math.round(10 * (TOP + (1 - part) * down)) / 10;
  const svg = element("svg", { width, height: HEIGHT, role: "img", "aria-label": `${value.name} by ${parameters.map(({ name }) => name).join(", ")}` });

  const labels = element("g", {}); // above the lines
  const label = (px, py, text, anchor) => {
    const short = text.length > 18 ? `${text.slice(0, 17)}…` : text;
    labels.append(element("text", { x: px, y: py, "text-anchor": anchor }, short));
  };
  if (isScatter) {
    svg.append(element("path", { class: "axis", d: `M${x(0)},${y(1)}V${y(0)}H${x(1)}` }));
    for (const [part, text] of scales[0].ticks) label(x(part), HEIGHT - 8, text, "middle");
    for (const [part, text] of scales[1].ticks) label(LEFT - 8, y(part) + 4, text, "end");
    label(4, 14, value.name, "start");
    label(width - 4, HEIGHT - BOTTOM - 6, parameters[0].name, "end");
  } else {
    axes.forEach(({ name }, number) => {
      const px = x(number / (axes.length - 1));
      svg.append(element("path", { class: "axis", d: `M${px},${y(0)}V${y(1)}` }));
      label(px, 14, name, "middle");
      for (const [part, text] of scales[number].ticks) label(px - 6, y(part) + 4, text, "end");
    });
  }

  lines = [];
  const shades = Array.from({ length: SHADES }, () => []);
  for (const at of shown) {
    const parts = axes.map(({ index }, number) => scales[number].at(cells[at][index]));
    if (!parts.every(Number.isFinite)) continue;
    const points = isScatter ? [[x(parts[0]), y(parts[1])]] : parts.map((part, number) => [x(number / (axes.length - 1)), y(part)]);
    const line = { at, points };
    lines.push(line);
    shades[Math.min(SHADES - 1, Math.floor(parts.at(-1) * SHADES))].push(pathOf(line));
  }
  const thickness = isScatter ? (lines.length > 1000 ? 4 : 7) : lines.length > 1000 ? 0.6 : 1.6;
  shades.forEach((paths, number) => {
    const share = Math.round((100 * number) / (SHADES - 1));
    const path = element("path", { d: paths.join(""), "stroke-width": thickness, "stroke-opacity": 0.75 });
    path.style.stroke = `color-mix(in oklch, var(--high) ${share}%, var(--low))`;
    svg.append(path);
  });
  hot = element("path", { class: "hot", "stroke-width": thickness + 2 });
  svg.append(hot, labels);
  svg.addEventListener("pointermove", (event) => mark(nearest(event.offsetX, event.offsetY)));
  svg.addEventListener("pointerleave", () => mark(undefined));
  svg.addEventListener("click", () => document.querySelector("tr.hot")?.scrollIntoView({ block: "center" }));
  place.replaceChildren(svg);
}

function nearest(px, py) {
  let [best, least] = [undefined, 24];
  for (const line of lines) {
    const { points } = line;
    let far;
    if (points.length === 1) {
      far = Math.hypot(points[0][0] - px, points[0][1] - py);
    } else {
      const after = Math.max(1, points.findIndex(([x]) => x >= px));
      const [[ax, ay], [bx, by]] = [points[after - 1], points[after]];
      far = Math.abs(ay + ((by - ay) * (px - ax)) / (bx - ax) - py);
    }
    if (far < least) [best, least] = [line, far];
  }
  return best;
}

function mark(line) {
  document.querySelector("tr.hot")?.classList.remove("hot");
  hot.setAttribute("d", line ? pathOf(line) : "");
  caption.textContent = "";
  if (!line) return;
  rows[line.at].classList.add("hot");
  const told = columns.filter(({ index, isParameter, isResult }) => (isParameter || isResult) && cells[line.at][index] !== "");
  caption.textContent = told.map(({ index, name }) => `${name} ${cells[line.at][index]}`).join(", ");
}

if (values.length && parameters.length) {
  for (const { name, index } of values) chosen.append(new Option(name, index));
  chosen.parentElement.hidden = values.length < 2;
  figure.hidden = false;
  draw();
  chosen.addEventListener("change", draw);
  new ResizeObserver(draw).observe(figure);
  table.addEventListener("pointerover", (event) => {
    const at = rows.indexOf(event.target.closest("tr"));
    mark(lines.find((line) => line.at === at));
  });
}
