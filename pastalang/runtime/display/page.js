"use strict";
// Draws the page from the data element. Every text from a run enters through textContent.
const data = JSON.parse(document.getElementById("data").textContent);
const ROW = 30, TOP = 26, SVG = "http://www.w3.org/2000/svg", READABLE = 58; // a column with text, in pixels
const MAIN = "prompt and skeleton";
const find = (id) => document.getElementById(id);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const children = new Map();
data.lanes.forEach((lane) => children.set(lane.parent, [...(children.get(lane.parent) || []), lane]));

// Lanes in the order of a walk through the tree, so that a child stands below its parent.
const order = [];
const pending = [...(children.get(null) || [])].reverse();
while (pending.length) {
  const lane = pending.pop();
  order.push(lane);
  pending.push(...(children.get(lane.id) || []).slice().reverse());
}
const row = new Map(order.map((lane, index) => [lane.id, index]));
const named = new Map(data.lanes.map((lane) => [lane.id, lane.name || MAIN]));
const hue = (id) => (row.get(id) * 137.508 + 205) % 360;
const shade = (light) => (dark.matches ? Math.max(104 - 0.88 * light, 16) : light); // the lightness of a colour on this paper
const color = (id, light) => (row.get(id) === 0 ? `hsl(222 12% ${shade(light)}%)` : `hsl(${hue(id)} 62% ${shade(light)}%)`);
const y = (id) => TOP + row.get(id) * ROW;
const middle = (id) => y(id) + (ROW - 6) / 2;
let pass = READABLE; // the width of a column
let chosen = null; // a lane
const x = (number) => 4 + (number - 1) * pass;

function html(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...inside);
  return element;
}
function svg(tag, attributes, parent) {
  const element = document.createElementNS(SVG, tag);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  if (parent) parent.append(element);
  return element;
}
const visible = (text) => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/^ /, "·").replace(/ $/, "·");
const short = (text, length) => ([...text].length > length ? [...text].slice(0, length - 1).join("") + "…" : text);

find("title").textContent = data.title;
find("subtitle").textContent = data.subtitle;
data.figures.forEach((figure) => {
  const box = html("div", { class: "figure" });
  box.append(html("b", {}, figure[0]), html("span", {}, figure[1]));
  find("figures").append(box);
});

const first = new Map(), last = new Map();
data.cells.forEach((cell) => {
  first.set(cell.lane, Math.min(first.get(cell.lane) ?? Infinity, cell.forward_pass));
  last.set(cell.lane, Math.max(last.get(cell.lane) ?? 0, cell.forward_pass));
});
// What was given and what was then sampled in the same pass share one column: a strip, and the rest.
const slots = new Map();
data.cells.forEach((cell) => {
  const key = `${cell.lane}/${cell.forward_pass}`;
  slots.set(key, [...(slots.get(key) || []), cell]);
});
const ending = (text, length) => ([...text].length > length ? "…" + [...text].slice(1 - length).join("") : text);

function curve(picture, from, to, owner) {
  const [x1, y1] = from, [x2, y2] = to, bend = Math.max(Math.min(14, pass), Math.abs(x2 - x1) / 2);
  svg("path", { d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, class: "curve", stroke: color(owner, 48), "data-lane": owner }, picture);
}
function place(cell) {
  const mates = slots.get(`${cell.lane}/${cell.forward_pass}`), gap = Math.min(6, 0.1 * pass);
  if (mates.length === 1) return [x(cell.forward_pass), pass - gap];
  const rest = mates.length - 1, most = (pass - gap) / (rest + 1);
  const strips = mates.slice(0, rest).map((mate) => Math.min(10 + 7 * (mate.tokens > 1 ? `${mate.tokens}`.length : 1), most));
  const index = mates.indexOf(cell), before = strips.slice(0, index).reduce((sum, strip) => sum + strip, 0);
  return [x(cell.forward_pass) + before, index === rest ? pass - gap - before : strips[index] - gap / 3];
}

const widest = Math.max(...order.map((lane) => Math.min([...named.get(lane.id)].length, 24)));
const label = () => Math.min(7.4 * widest + 14, 0.34 * find("timeline").clientWidth);
const height = TOP + order.length * ROW + 8;
function drawNames() {
  const width = label(), picture = svg("svg", { width, height });
  order.forEach((lane) => {
    const name = svg("text", { x: 4, y: middle(lane.id) + 4, class: "lane-name", "data-lane": lane.id }, picture);
    name.style.fill = color(lane.id, 34);
    name.textContent = ending(named.get(lane.id), Math.max(Math.floor((width - 8) / 7.4), 4));
    name.append(svg("title", {}, null));
    name.lastChild.textContent = named.get(lane.id);
    name.addEventListener("click", () => choose(lane.id));
  });
  find("names").replaceChildren(picture);
}
function drawGrid(picture) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((each) => each * pass >= 34) || 2000;
  for (let number = 1; number <= data.passes; number += 1) {
    if (pass < 12 && number % step && number !== 1) continue;
    svg("line", { x1: x(number) - 2, x2: x(number) - 2, y1: TOP - 6, y2: TOP + order.length * ROW, class: "guide" }, picture);
    if (number === 1 || number % step === 0) svg("text", { x: x(number) + Math.max(pass / 2 - 2, 3), y: TOP - 12, class: "pass" }, picture).textContent = number;
  }
}
function drawEdges(picture) {
  order.forEach((lane) => {
    if (lane.parent === null || !first.has(lane.id)) return;
    const start = lane.forked_in ?? first.get(lane.id);
    const awake = Math.min(first.get(lane.id), ...data.joins.filter((join) => join.lane === lane.id).map((join) => join.since));
    curve(picture, [x(start) - 2, middle(lane.parent)], [x(Math.max(start, awake)), middle(lane.id)], lane.id);
  });
  data.joins.forEach((join) => {
    if (join.forward_pass > join.since) {
      svg("path", { d: `M${x(join.since)},${middle(join.lane)} H${x(join.forward_pass)}`, class: "wait", stroke: color(join.lane, 48), "data-lane": join.lane }, picture);
    }
    join.joined.forEach((id) => last.has(id) && curve(picture, [x(last.get(id) + 1) - Math.min(6, pass / 2), middle(id)], [x(join.forward_pass), middle(join.lane)], id));
  });
}
function drawCell(picture, cell) {
  const forced = cell.probability === null, [left, width] = place(cell), light = forced ? 95 : 90 - 22 * cell.probability;
  const group = svg("g", { class: "cell", "data-lane": cell.lane }, picture);
  svg("rect", { x: left, y: y(cell.lane), width: Math.max(width, 0.7), height: ROW - 6, fill: color(cell.lane, light), stroke: color(cell.lane, forced ? 82 : 62), "stroke-opacity": width < 4 ? 0 : 1 }, group);
  const fits = Math.floor((width - 6) / 7.3), words = cell.tokens > 1 ? `${cell.tokens}` : visible(cell.text);
  if (cell.tokens > 1 ? fits >= words.length : fits >= 1) {
    const text = svg("text", { x: left + (width < 20 ? 3 : 5), y: middle(cell.lane) + 4 }, group);
    text.textContent = short(words, fits);
    if (forced) text.style.fill = "var(--faint)";
  }
  group.addEventListener("mousemove", (event) => tip(event, cell));
  group.addEventListener("mouseleave", () => { find("tip").hidden = true; });
  group.addEventListener("click", () => choose(cell.lane));
}
function draw() {
  const picture = svg("svg", { width: x(data.passes + 1) + 4, height, role: "img" });
  drawNames();
  drawGrid(picture);
  drawEdges(picture);
  data.cells.forEach((cell) => drawCell(picture, cell));
  find("canvas").replaceChildren(picture);
  dim();
}

// Two widths of a column: all passes in sight, or their texts.
const readable = data.passes > 120 ? 40 : READABLE;
let isFitted = true;
function zoom(fitted) {
  const room = (find("timeline").clientWidth - label() - 12) / Math.max(data.passes, 1);
  isFitted = fitted;
  pass = fitted ? Math.min(room, readable) : readable;
  find("zoom").hidden = room >= readable;
  find("fit").setAttribute("aria-pressed", fitted);
  find("read").setAttribute("aria-pressed", !fitted);
  draw();
  drawOverview();
}
// The whole run in a strip, with what is in sight of it, while the columns are wider than the page.
function drawOverview() {
  const strip = find("overview"), canvas = find("canvas"), tall = Math.max(Math.min(5 * order.length, 70), 16);
  strip.toggleAttribute("hidden", canvas.scrollWidth <= canvas.clientWidth + 1);
  strip.setAttribute("viewBox", `0 0 ${data.passes} ${order.length}`);
  strip.setAttribute("preserveAspectRatio", "none");
  strip.style.height = `${tall}px`;
  strip.replaceChildren();
  data.cells.forEach((cell) => svg("rect", { x: cell.forward_pass - 1, y: row.get(cell.lane) + 0.1, width: 1, height: 0.8, fill: color(cell.lane, cell.probability === null ? 82 : 60) }, strip));
  svg("rect", { class: "window", y: 0, height: order.length }, strip);
  mark();
}
function mark() {
  const box = document.querySelector("#overview .window"), canvas = find("canvas");
  if (!box) return;
  box.setAttribute("x", canvas.scrollLeft / pass);
  box.setAttribute("width", Math.min(canvas.clientWidth / pass, data.passes));
}
find("canvas").addEventListener("scroll", mark);
find("overview").addEventListener("click", (event) => {
  const box = find("overview").getBoundingClientRect(), canvas = find("canvas");
  canvas.scrollLeft = (event.clientX - box.left) / box.width * data.passes * pass - canvas.clientWidth / 2;
});
find("fit").addEventListener("click", () => zoom(true));
find("read").addEventListener("click", () => zoom(false));
let settle = 0, wide = find("timeline").clientWidth;
new ResizeObserver(() => {
  if (find("timeline").clientWidth === wide) return;
  wide = find("timeline").clientWidth;
  clearTimeout(settle);
  settle = setTimeout(() => zoom(isFitted), 100);
}).observe(find("timeline"));
dark.addEventListener("change", () => window.location.reload());

function tip(event, cell) {
  const box = find("tip"), forced = cell.probability === null;
  const how = forced ? `given, ${cell.tokens} token${cell.tokens > 1 ? "s" : ""}` : `probability ${(100 * cell.probability).toFixed(1)}%`;
  box.replaceChildren(
    html("b", {}, short(visible(cell.text), 300)),
    `\n${how}\npass ${cell.forward_pass}, position ${cell.position}\nlane: ${named.get(cell.lane)}`,
  );
  box.hidden = false;
  box.style.left = `${Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, window.innerHeight - box.offsetHeight - 8)}px`;
}

// The legend has the colours of the lane that sampled most.
const drawn = new Map();
data.cells.forEach((cell) => cell.probability !== null && drawn.set(cell.lane, (drawn.get(cell.lane) || 0) + 1));
const example = [...drawn].sort((one, other) => other[1] - one[1] || row.get(other[0]) - row.get(one[0])).map(([lane]) => lane)[0] ?? order[0].id;
const swatch = (background, border, words) => {
  const key = html("i", {});
  key.style.background = background;
  key.style.border = `1px solid ${border}`;
  return html("span", {}, key, words);
};
const stroke = (kind, path, words) => {
  const key = svg("svg", { viewBox: "0 0 24 12" });
  svg("path", { d: path, fill: "none", stroke: color(example, 48), "stroke-width": 1.6, ...(kind === "dots" ? { "stroke-dasharray": "2 4" } : {}) }, key);
  return html("span", {}, key, words);
};
find("legend").append(
  swatch(color(example, 68), color(example, 62), "sampled: the stronger the colour, the surer"),
  swatch(color(example, 95), color(example, 82), "given, with the number of tokens"),
  html("span", {}, `each lane has a colour; ${named.get(order[0].id)} is grey`),
);
if (data.lanes.length > 1) find("legend").append(stroke("line", "M1,2 C12,2 12,10 23,10", "fork or join"));
if (data.joins.some((join) => join.forward_pass > join.since)) find("legend").append(stroke("dots", "M1,6 H23", "waiting"));

data.answer.forEach((piece) => {
  const span = html("span", { "data-lane": piece.lane }, piece.text);
  if (!piece.is_forced) {
    span.classList.add("written");
    span.style.background = color(piece.lane, 88);
    span.addEventListener("click", () => choose(piece.lane));
  }
  find("answer").append(span);
});
const read = data.cells.filter((cell) => cell.probability === null && cell.lane === order[0].id && cell.forward_pass === first.get(order[0].id));
if (read.length) {
  const tokens = read.reduce((sum, cell) => sum + cell.tokens, 0);
  find("prompt").hidden = false;
  find("prompt").firstChild.textContent = `What the model read (${tokens} tokens)`;
  find("prompt").lastChild.textContent = read.map((cell) => cell.text).join("");
}

const most = Math.max(data.passes, data.sequential_passes, 1);
[["this run", data.passes, "var(--run)"], ["left to right", data.sequential_passes, "var(--turn)"]].forEach(([name, passes, background]) => {
  const bar = html("div", {}, `${passes} passes`);
  bar.style.width = `${(100 * passes) / most}%`;
  bar.style.background = background;
  find("race").append(html("div", { class: "bar" }, html("span", {}, name), bar));
});

const MOST = 14; // lanes in the list of all
const dot = (id) => { const key = html("i", {}); key.style.background = color(id, 55); return key; };
function sightsOf(id) {
  return data.sights.filter((sight) => sight.lane === id).map((sight) => html("div", { class: "seen" },
    dot(sight.seen), sight.seen === id ? "itself" : named.get(sight.seen), html("em", {}, `${sight.tokens} tokens`)));
}
function allSights() {
  const others = (lane) => data.sights.filter((sight) => sight.lane === lane.id && sight.seen !== lane.id);
  const seeing = order.filter((lane) => others(lane).length);
  const lines = seeing.slice(0, MOST).map((lane) => {
    const seen = others(lane).map((sight) => named.get(sight.seen));
    const line = html("div", { class: "seen all" }, dot(lane.id), html("span", {}, html("b", {}, named.get(lane.id)), html("em", {}, ` sees ${seen.join(", ")}`)));
    line.addEventListener("click", () => choose(lane.id));
    return line;
  });
  const more = seeing.length - MOST;
  return more > 0 ? [...lines, html("div", { class: "seen" }, html("em", {}, `and ${more} more lanes`))] : lines;
}
function choose(id) {
  chosen = chosen === id ? null : id;
  dim();
  find("sighthint").textContent = chosen === null ? "click a lane for the tokens" : `${named.get(chosen)} sees`;
  find("sight").replaceChildren(...(chosen === null ? allSights() : sightsOf(chosen)));
}
function dim() {
  const seen = new Set(data.sights.filter((sight) => sight.lane === chosen).map((sight) => sight.seen));
  document.querySelectorAll("[data-lane]").forEach((element) => {
    const lane = Number(element.getAttribute("data-lane"));
    element.classList.toggle("dim", chosen !== null && lane !== chosen && !seen.has(lane));
  });
}
zoom(true);
choose(null);
