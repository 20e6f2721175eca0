"use strict";
// Draws the page from the data element. Every text from a run enters through textContent.
const data = JSON.parse(document.getElementById("data").textContent);
const PASS = data.passes > 120 ? 26 : data.passes > 40 ? 40 : 58;
const ROW = 30, LABEL = 190, TOP = 26, SVG = "http://www.w3.org/2000/svg";
const find = (id) => document.getElementById(id);
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
const hue = (id) => (row.get(id) * 137.508 + 205) % 360;
const color = (id, light) => (row.get(id) === 0 ? `hsl(222 12% ${light}%)` : `hsl(${hue(id)} 62% ${light}%)`);
const x = (pass) => LABEL + (pass - 1) * PASS;
const y = (id) => TOP + row.get(id) * ROW;
const middle = (id) => y(id) + (ROW - 6) / 2;

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
  box.append(html("b", {}, figure.value), html("span", {}, figure.meaning));
  find("figures").append(box);
});

function curve(from, to, owner) {
  const [x1, y1] = from, [x2, y2] = to, bend = Math.max(14, Math.abs(x2 - x1) / 2);
  svg("path", { d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, class: "curve", stroke: color(owner, 48), "data-lane": owner }, picture);
}

const picture = svg("svg", { width: x(data.passes + 1) + 20, height: TOP + order.length * ROW + 8, role: "img" });
for (let pass = 1; pass <= data.passes; pass += 1) {
  svg("line", { x1: x(pass) - 2, x2: x(pass) - 2, y1: TOP - 6, y2: TOP + order.length * ROW, class: "guide" }, picture);
  svg("text", { x: x(pass) + PASS / 2 - 2, y: TOP - 12, class: "pass" }, picture).textContent = pass;
}
const first = new Map(), last = new Map();
data.cells.forEach((cell) => {
  first.set(cell.lane, Math.min(first.get(cell.lane) ?? Infinity, cell.forward_pass));
  last.set(cell.lane, Math.max(last.get(cell.lane) ?? 0, cell.forward_pass));
});
order.forEach((lane) => {
  const name = svg("text", { x: 4, y: middle(lane.id) + 4, class: "lane-name", fill: color(lane.id, 36), "data-lane": lane.id }, picture);
  name.style.fill = color(lane.id, 34);
  name.textContent = short(lane.name || "prompt and skeleton", 24);
  name.addEventListener("click", () => choose(lane.id));
  if (lane.parent !== null && first.has(lane.id)) {
    const start = lane.forked_in ?? first.get(lane.id);
    const awake = Math.min(first.get(lane.id), ...data.joins.filter((join) => join.lane === lane.id).map((join) => join.since));
    curve([x(start) - 2, middle(lane.parent)], [x(Math.max(start, awake)), middle(lane.id)], lane.id);
  }
});
data.joins.forEach((join) => {
  if (join.forward_pass > join.since) {
    svg("path", { d: `M${x(join.since)},${middle(join.lane)} H${x(join.forward_pass)}`, class: "wait", stroke: color(join.lane, 48), "data-lane": join.lane }, picture);
  }
  join.joined.forEach((id) => last.has(id) && curve([x(last.get(id) + 1) - 6, middle(id)], [x(join.forward_pass), middle(join.lane)], id));
});
// What was given and what was then sampled in the same pass share one column: a strip, and the rest.
const slots = new Map();
data.cells.forEach((cell) => {
  const key = `${cell.lane}/${cell.forward_pass}`;
  slots.set(key, [...(slots.get(key) || []), cell]);
});
function place(cell) {
  const mates = slots.get(`${cell.lane}/${cell.forward_pass}`);
  if (mates.length === 1) return [x(cell.forward_pass), PASS - 6];
  const rest = mates.length - 1, most = (PASS - 6) / (rest + 1);
  const strips = mates.slice(0, rest).map((mate) => Math.min(10 + 7 * (mate.tokens > 1 ? `${mate.tokens}`.length : 1), most));
  const index = mates.indexOf(cell), before = strips.slice(0, index).reduce((sum, strip) => sum + strip, 0);
  return [x(cell.forward_pass) + before, index === rest ? PASS - 6 - before : strips[index] - 2];
}
data.cells.forEach((cell) => {
  const forced = cell.probability === null;
  const [left, width] = place(cell);
  const group = svg("g", { class: "cell", "data-lane": cell.lane }, picture);
  const light = forced ? 95 : 90 - 22 * cell.probability;
  svg("rect", { x: left, y: y(cell.lane), width, height: ROW - 6, fill: color(cell.lane, light), stroke: color(cell.lane, forced ? 82 : 62) }, group);
  const label = svg("text", { x: left + (width < 20 ? 3 : 5), y: middle(cell.lane) + 4 }, group);
  label.textContent = cell.tokens > 1 ? `${cell.tokens}` : short(visible(cell.text), Math.max(1, Math.floor((width - 8) / 7.3)));
  if (forced) label.style.fill = "#6b7385";
  group.addEventListener("mousemove", (event) => tip(event, cell));
  group.addEventListener("mouseleave", () => { find("tip").hidden = true; });
  group.addEventListener("click", () => choose(cell.lane));
});
find("timeline").append(picture);

function tip(event, cell) {
  const box = find("tip"), forced = cell.probability === null;
  const how = forced ? `given, ${cell.tokens} token${cell.tokens > 1 ? "s" : ""}` : `probability ${(100 * cell.probability).toFixed(1)} %`;
  box.replaceChildren(
    html("b", {}, short(visible(cell.text), 300)),
    `\n${how}\npass ${cell.forward_pass}, position ${cell.position}\nlane: ${data.lanes.find((lane) => lane.id === cell.lane).name || "prompt and skeleton"}`,
  );
  box.hidden = false;
  box.style.left = `${Math.min(event.clientX + 14, window.innerWidth - box.offsetWidth - 8)}px`;
  box.style.top = `${Math.min(event.clientY + 14, window.innerHeight - box.offsetHeight - 8)}px`;
}

const swatch = (background, border, words) => {
  const key = html("i", {});
  key.style.background = background;
  key.style.border = `1px solid ${border}`;
  return html("span", {}, key, words);
};
find("legend").append(
  swatch("hsl(205 62% 70%)", "hsl(205 62% 50%)", "sampled: the deeper the colour, the surer"),
  swatch("hsl(205 62% 95%)", "hsl(205 62% 82%)", "given (the number of tokens): it cost no decision"),
  html("span", {}, "curves: forks and joins"), html("span", {}, "dotted: waiting"),
);

data.answer.forEach((piece) => {
  const span = html("span", { "data-lane": piece.lane }, piece.text);
  if (!piece.forced) {
    span.classList.add("written");
    span.style.background = color(piece.lane, 88);
    span.addEventListener("click", () => choose(piece.lane));
  }
  find("answer").append(span);
});

const most = Math.max(data.passes, data.sequential_passes, 1);
[["this run", data.passes, "hsl(205 62% 42%)"], ["left to right", data.sequential_passes, "hsl(222 10% 58%)"]].forEach(([name, passes, shade]) => {
  const bar = html("div", {}, `${passes} passes`);
  bar.style.width = `${(100 * passes) / most}%`;
  bar.style.background = shade;
  find("race").append(html("div", { class: "bar" }, html("span", {}, name), bar));
});

let chosen = null;
function choose(id) {
  chosen = chosen === id ? null : id;
  const sights = data.sights.filter((sight) => sight.lane === chosen);
  const seen = new Set(sights.map((sight) => sight.seen));
  document.querySelectorAll("[data-lane]").forEach((element) => {
    const lane = Number(element.getAttribute("data-lane"));
    element.classList.toggle("dim", chosen !== null && lane !== chosen && !seen.has(lane));
  });
  const box = find("sight");
  box.replaceChildren();
  find("sighthint").textContent = chosen === null ? "choose a lane" : `${data.lanes.find((lane) => lane.id === chosen).name || "prompt and skeleton"} sees`;
  sights.forEach((sight) => {
    const key = html("i", {});
    key.style.background = color(sight.seen, 55);
    const name = data.lanes.find((lane) => lane.id === sight.seen).name || "prompt and skeleton";
    box.append(html("div", { class: "seen" }, key, sight.seen === chosen ? "itself" : name, html("em", {}, `${sight.tokens} tokens`)));
  });
}
