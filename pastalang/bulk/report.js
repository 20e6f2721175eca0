"use strict";
// Draws the page from its data. Every text of a row or a run enters through text nodes and attributes.
const data = JSON.parse(document.getElementById("data").textContent);
const blocks = document.querySelectorAll("script.block");
const PAGE = 25, KEPT = 12, NOTHING = 255;
const find = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en-US");
const percent = (part, all) => (all ? `${(100 * part / all).toFixed(1)}%` : "–");
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

function html(tag, attributes, ...inside) {
  const element = document.createElement(tag);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...inside);
  return element;
}
function svg(tag, attributes, ...inside) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...inside);
  return element;
}
const cell = (kind, ...inside) => html("td", kind ? { class: kind } : {}, ...inside);
function bar(share) {
  const inside = html("i", {});
  inside.style.width = `${100 * share}%`;
  return html("span", { class: "bar" }, inside);
}
function named(name, field) {
  const element = html("span", { class: "name" }, name);
  element.style.setProperty("--hue", data.fields[field].hue);
  element.style.setProperty("--under", data.fields[field].under);
  return element;
}

// ── figures ──
function duration(seconds) {
  if (seconds < 90) return `${seconds.toFixed(1)} s`;
  return seconds < 5400 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
function figures() {
  const speed = data.speed, usable = data.statuses.ok + data.statuses.unsure + data.statuses.truncated, rows = Math.max(data.rows, 1);
  const shown = [[count(data.rows), "rows"], [percent(usable, data.rows), "with a value"]];
  if (speed && speed.seconds) shown.push([(data.rows / speed.seconds).toFixed(2), "documents per second"], [duration(speed.seconds), "of work"]);
  shown.push([count(data.input_tokens), "tokens read"], [count(data.output_tokens), "tokens written"], [(data.passes / rows).toFixed(1), "forward passes each"]);
  shown.forEach(([value, meaning]) => find("figures").append(html("div", { class: "figure" }, html("b", {}, value), html("span", {}, meaning))));
}
function statuses() {
  Object.entries(data.statuses).forEach(([status, number]) => {
    const row = html("tr", number ? {} : { class: "zero" }, cell("", status), cell("number", count(number)), cell("number", percent(number, data.rows)));
    row.append(cell("", bar(data.rows ? number / data.rows : 0)));
    find("statuses").tBodies[0].append(row);
  });
}
// Columns of equal time from the bars, which are as long as the chunks took.
function evenly(bars, seconds) {
  if (!seconds) return bars.map(() => ({ rate: 0, from: 0, to: 0 }));
  const columns = Array.from({ length: Math.min(bars.length, 60) }, () => 0), step = seconds / columns.length;
  let at = 0;
  bars.forEach(([length, rows]) => {
    columns.forEach((_, index) => {
      const shared = Math.min(at + length, (index + 1) * step) - Math.max(at, index * step);
      if (shared > 0) columns[index] += rows * shared / length;
    });
    at += length;
  });
  return columns.map((rows, index) => ({ rate: rows / step, from: index * step, to: (index + 1) * step }));
}
function speed() {
  if (!data.speed) return find("speed").append(html("p", { class: "faint" }, "not known: the folder of the run is not there"));
  const { bars, seconds, began, ended, resumed } = data.speed, WIDTH = 800, HEIGHT = 150, LEFT = 48;
  const columns = evenly(bars, seconds), most = Math.max(...columns.map(({ rate }) => rate)) || 1;
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 24}`, role: "img" });
  const width = (WIDTH - LEFT) / columns.length;
  columns.forEach(({ rate, from, to }, index) => {
    const height = HEIGHT * 0.94 * rate / most;
    const box = svg("rect", { class: "rate", x: LEFT + index * width, y: HEIGHT - height, width: width - (width > 4 ? 1 : 0), height });
    box.append(svg("title", {}, `${rate.toFixed(2)} documents per second from ${duration(from)} to ${duration(to)}`));
    picture.append(box);
  });
  const labels = [[LEFT - 6, 14, most.toFixed(most < 10 ? 1 : 0), "end"], [LEFT - 6, HEIGHT, "0", "end"], [LEFT, HEIGHT + 18, "0 s", "start"], [WIDTH, HEIGHT + 18, duration(seconds), "end"]];
  labels.forEach(([x, y, text, anchor]) => picture.append(svg("text", { x, y, "text-anchor": anchor }, text)));
  const time = (moment) => new Date(1000 * moment).toLocaleString();
  const pauses = resumed ? `, resumed ${resumed === 1 ? "once" : `${count(resumed)} times`}` : "";
  find("speed").append(picture, html("p", { class: "faint" }, `${time(began)} to ${time(ended)}${pauses}`));
}
function fields() {
  data.fields.forEach((field, number) => {
    if (!field.is_shown) return;
    const most = Math.max(...field.confidences, 1), picture = svg("svg", { viewBox: "0 0 92 19" });
    picture.append(svg("line", { x1: 0, x2: 91, y1: 18.5, y2: 18.5 }));
    field.confidences.forEach((found, index) => {
      const height = found ? Math.max(18 * found / most, 1) : 0;
      const box = svg("rect", { x: index * 9.2, y: 18 - height, width: 8.2, height });
      box.append(svg("title", {}, `${count(found)} from ${index / 10} to ${(index + 1) / 10}`));
      picture.append(box);
    });
    const row = html("tr", {}, cell("", named(field.name, number)), cell("number", percent(field.filled, field.of)));
    row.append(cell("", bar(field.of ? field.filled / field.of : 0)), cell("number", field.decided ? field.confidence.toFixed(2) : "–"));
    row.append(cell("", field.decided ? picture : ""), cell("number", percent(field.low, field.decided)), cell("number", count(field.truncated)));
    row.title = `${count(field.filled)} of ${count(field.of)} filled; ${count(field.low)} of ${count(field.decided)} below 0.5`;
    find("fields").tBodies[0].append(row);
  });
}
function comparison() {
  const found = data.comparison;
  if (!found) return;
  find("comparison").hidden = false;
  find("compared").textContent = `${count(found.same)} of ${count(found.documents)} documents are the same in all fields, mode ${found.mode}`;
  found.fields.forEach(({ field, same, of, examples, advice }) => {
    const shown = cell("", ...examples.map((one) => html("div", {}, html("b", {}, one.document), ` ${one.parallel} → ${one.sequential}`)));
    const row = html("tr", {}, cell("", field), cell("number", `${count(same)} of ${count(of)}`), cell("", bar(of ? same / of : 0)), shown);
    row.append(cell("", advice ? advised(advice) : ""));
    find("agreement").tBodies[0].append(row);
  });
  const failed = found.failed ? [`${count(found.failed)} more had no value in one of the two modes`] : [];
  [...failed, ...found.notes].forEach((note) => find("caveats").append(html("li", {}, note)));
}
function advised({ after, fixes, tried }) {
  if (after === null) return "no after that was tried; the mode sequential does, in more passes";
  return html("span", {}, html("code", {}, after), ` makes ${count(fixes)} of ${count(tried)} the same`);
}
function run() {
  const told = { ...data.run };
  if (!Object.keys(told).length) Object.keys(data.origins).forEach((origin) => { told.model = origin; });
  Object.entries(told).forEach(([name, value]) => find("run").tBodies[0].append(html("tr", {}, cell("", name), cell("", value))));
  find("title").textContent = data.title;
  find("subtitle").textContent = Object.keys(data.origins).join("; ");
  data.notes.forEach((note) => find("notes").append(html("li", {}, note)));
}

// ── rows ──
const statusOf = bytes(data.status_of_rows), leastOf = bytes(data.least_of_rows), names = Object.keys(data.statuses);
const opened = new Map(); // the blocks that were opened last
async function block(number) {
  const kept = opened.get(number) || unpacked(number);
  opened.delete(number);
  opened.set(number, kept);
  if (opened.size > KEPT) opened.delete(opened.keys().next().value);
  return kept;
}
async function unpacked(number) {
  const packed = new Blob([bytes(blocks[number].textContent)]).stream();
  return JSON.parse(await new Response(packed.pipeThrough(new DecompressionStream("gzip"))).text());
}
const rowAt = async (index) => (await block(Math.floor(index / data.block)))[index % data.block];

let chosen = [], page = 0, asked = 0;
async function choose() {
  const mine = ++asked, status = find("status").value, wanted = find("find").value.trim().toLowerCase();
  const field = find("field").value, below = find("below").value === "" ? null : Number(find("below").value);
  const isUnsure = ([, , , values]) => values.some(([, , sure, , number]) => sure !== null && sure < below && (field === "" || String(number) === field));
  const tests = [];
  if (below !== null) tests.push(isUnsure);
  if (wanted) tests.push((row) => words(row).toLowerCase().includes(wanted));
  let rows = Array.from({ length: data.rows }, (_, index) => index);
  if (status) rows = rows.filter((index) => names[statusOf[index]] === status);
  if (tests.length) rows = await searched(rows, (row) => tests.every((test) => test(row)), () => mine !== asked);
  if (mine !== asked) return;
  if (find("order").value === "least") rows.sort((one, other) => leastOf[one] - leastOf[other] || one - other);
  chosen = rows;
  await show(0);
}
async function searched(rows, isWanted, isStale) {
  const found = [];
  for (const index of rows) {
    if (index % data.block === 0) find("found").textContent = `searching, ${percent(index, data.rows)}`;
    if (isStale()) return found;
    if (isWanted(await rowAt(index))) found.push(index);
  }
  return found;
}
function words([id, error, texts, values]) {
  const source = texts.map(([, parts]) => parts.map((part) => (Array.isArray(part) ? part[0] : typeof part === "string" ? part : "\n")).join(""));
  return [id, error, ...source, ...values.map(([, text]) => text)].join("\n");
}
async function show(number) {
  const mine = ++asked, last = Math.max(Math.ceil(chosen.length / PAGE), 1);
  page = Math.min(Math.max(number || 0, 0), last - 1);
  const shown = chosen.slice(page * PAGE, (page + 1) * PAGE);
  const rows = await Promise.all(shown.map(rowAt));
  if (mine !== asked) return;
  find("rows").tBodies[0].replaceChildren(...rows.map((row, index) => drawn(shown[index], row)));
  find("found").textContent = `${count(chosen.length)} ${chosen.length === 1 ? "row" : "rows"}`;
  find("page").value = page + 1;
  find("page").max = last;
  find("last").textContent = count(last);
  find("previous").disabled = page === 0;
  find("next").disabled = page === last - 1;
}
function drawn(index, [id, error, texts, values, [read, written, passes, milliseconds, attempts, windows]]) {
  const status = names[statusOf[index]], cost = `${count(read)} + ${count(written)} tokens, ${count(passes)} passes, ${duration(milliseconds / 1000)}`;
  const about = cell("", html("div", { class: "id", title: `row ${count(index + 1)}` }, id ?? `row ${count(index + 1)}`));
  about.append(html("div", { class: status === "ok" ? "" : "bad", title: `${cost}, ${count(attempts)} ${attempts === 1 ? "attempt" : "attempts"}` }, status));
  if (error !== null) about.append(html("div", { class: "text where" }, error));
  if (windows.length) {
    const each = windows.map(([start, end, state, why]) => html("li", { class: state === "ok" ? "" : "bad" }, `${count(start)}–${count(end)} ${state}${why ? `: ${why}` : ""}`));
    about.append(html("details", { class: "where" }, html("summary", {}, `${count(windows.length)} ${windows.length === 1 ? "window" : "windows"}`), html("ol", {}, ...each)));
  }
  const source = cell("");
  texts.forEach(([column, parts]) => {
    if (texts.length > 1) source.append(html("div", { class: "where" }, column));
    source.append(html("p", { class: "text" }, ...parts.map((part) => piece(part, values))));
  });
  const table = html("tbody", {});
  values.forEach(([name, text, confidence, truncated, field]) => {
    const value = text === null ? cell("null", "no value") : cell(text === "null" ? "null" : "", text);
    if (truncated) value.append(html("span", { class: "bad" }, " cut"));
    table.append(html("tr", {}, cell("", named(name, field)), value, cell("number", confidence === null ? "" : confidence.toFixed(2))));
  });
  return html("tr", { class: "row" }, about, source, cell("", html("table", {}, table)));
}
function piece(part, values) {
  if (typeof part === "string") return part;
  if (typeof part === "number") return html("span", { class: "gap" }, ` … ${count(part)} characters … `);
  const [name, , confidence, , field] = values[part[1]];
  const element = html("mark", { title: `${name} · confidence ${confidence.toFixed(2)}` }, part[0]);
  element.style.setProperty("--hue", data.fields[field].hue);
  element.style.setProperty("--under", data.fields[field].under);
  return element;
}

[figures, statuses, speed, fields, comparison, run].forEach((draw) => draw());
find("field").append(html("option", { value: "" }, "any field"));
find("status").append(html("option", { value: "" }, `all (${count(data.rows)})`));
names.filter((name) => data.statuses[name]).forEach((name) => find("status").append(html("option", { value: name }, `${name} (${count(data.statuses[name])})`)));
find("controls").addEventListener("submit", (event) => event.preventDefault());
data.fields.forEach((field, number) => field.is_shown && find("field").append(html("option", { value: number }, field.name)));
["status", "order", "field"].forEach((id) => find(id).addEventListener("change", choose));
let pause = 0;
["find", "below"].forEach((id) => find(id).addEventListener("input", () => { clearTimeout(pause); pause = setTimeout(choose, 250); }));
find("page").addEventListener("change", () => show(Number(find("page").value) - 1));
find("previous").addEventListener("click", () => show(page - 1));
find("next").addEventListener("click", () => show(page + 1));
choose();
