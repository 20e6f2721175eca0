// What a visitor of the playground does, in a headless Chromium that is driven over the pipe of its devtools protocol.
//
//     node playground.mjs CHROMIUM FOLDER ADDRESS ADDRESS_WITH_KEY
import assert from "node:assert/strict";
import { spawn } from "node:child_process";

const [chromium, folder, address, guarded] = process.argv.slice(2);
const flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
  "--remote-debugging-pipe", `--user-data-dir=${folder}`];
const browser = spawn(chromium, flags, {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
const waiting = new Map(), problems = [];
let number = 0, rest = "", session, urls = [];

browser.stdio[4].setEncoding("utf8").on("data", more => {
  const messages = (rest + more).split("\0");
  rest = messages.pop();
  for (const message of messages.map(one => JSON.parse(one))) {
    const {id, method, params, result, error} = message;
    if (id) { const [resolve, reject] = waiting.get(id); waiting.delete(id); error ? reject(new Error(error.message)) : resolve(result); }
    if (method === "Network.requestWillBeSent") urls.push(params.request.url);
    if (method === "Runtime.exceptionThrown") problems.push(params.exceptionDetails.exception?.description);
  }
});

const send = (method, params = {}) => new Promise((...settle) => {
  waiting.set(++number, settle);
  browser.stdio[3].write(JSON.stringify({id: number, method, params, sessionId: session}) + "\0");
});

async function js(expression) {
  const {result, exceptionDetails} = await send("Runtime.evaluate", {expression, awaitPromise: true, returnByValue: true});
  assert.equal(exceptionDetails, undefined, expression);
  return result.value;
}

async function until(expression) {
  for (const end = Date.now() + 120_000; !await js(`Boolean(${expression})`); await new Promise(resolve => setTimeout(resolve, 20)))
    assert(Date.now() < end, `it never came to ${expression}; ${problems}`);
}

async function press(key, code, modifiers = 0) {
  for (const type of ["rawKeyDown", "keyUp"]) await send("Input.dispatchKeyEvent", {type, key, windowsVirtualKeyCode: code, modifiers});
}

async function ask(schema) {
  await js(`at("schema").value = ${JSON.stringify(typeof schema === "string" ? schema : JSON.stringify(schema))}`);
  await press("Enter", 13, 2);  // with Ctrl
}

const answered = () => until(`!running && document.querySelector("#answer span")`);
const texts = selector => js(`[...document.querySelectorAll("${selector}")].map(one => one.textContent)`);
const colours = selector => js(`[...document.querySelectorAll("${selector}")].map(one => getComputedStyle(one).color)`);
const value = async () => JSON.parse((await texts("#answer span")).join(""));
const drawn = () => until(`document.querySelector("#plan img")?.naturalWidth > 100`);
const record = properties => ({type: "object", properties, required: Object.keys(properties)});
const SHORT = record({brand: {type: "string", maxLength: 5}, dark: {type: "boolean"}});
const WORDS = {type: "string", minLength: 2000, maxLength: 2000};

const cases = {
  async "a schema is answered in the colours of its lanes"() {
    await ask(SHORT);
    await answered();
    assert.deepEqual(await texts(".lane .name"), ["brand", "dark"]);
    assert.deepEqual(Object.keys(await value()), ["brand", "dark"]);
    assert.deepEqual(await texts(".lane .text"), await texts("#answer span:not(.known)"));
    const shown = await colours("#answer span:not(.known)");
    assert.deepEqual(await colours(".lane .text"), shown);
    assert.equal(new Set(shown).size, 2);
    for (const sure of await texts(".lane .sure")) assert(sure !== "" && sure >= 0 && sure <= 1, `confidence ${sure}`);
    assert.match((await texts("#figures"))[0], /forward passes/);
    await drawn();
  },
  async "lanes grow beside one another until Escape"() {
    await ask(record({a: WORDS, b: WORDS}));
    await until(`[...document.querySelectorAll(".lane.open .text")].filter(one => one.textContent.length > 9).length > 1`);
    assert.deepEqual(await texts("#run"), ["Stop"]);
    await press("Escape", 27);
    await until("!running");
    assert.deepEqual([await texts("#answer"), await texts("#run")], [["Stopped."], ["Run"]]);
  },
  async "a program has a form of its inputs"() {
    await js(`(at("what").value = "greet", at("what").dispatchEvent(new Event("change")))`);
    assert.deepEqual([await texts("#inputs label"), await texts("#inputs option")], [["name", "tone"], ["warm", "dry"]]);
    await js(`(at("input-name").value = "Ada", at("run").click())`);
    await answered();
    assert.deepEqual(Object.keys(await value()), ["hello", "size"]);
    await drawn();
  },
  async "what is wrong is shown"() {
    for (const [schema, said] of [["{", /The schema is not JSON/], [{type: "objekt"}, /response_format/]]) {
      await ask(schema);
      await until(`!running && document.querySelector("#answer .error")`);
      assert.match((await texts("#answer .error"))[0], said);
    }
  },
  async "the page follows the colours of the system and fits a phone"() {
    const grounds = [];
    for (const scheme of ["light", "dark"]) {
      await send("Emulation.setEmulatedMedia", {features: [{name: "prefers-color-scheme", value: scheme}]});
      grounds.push(await js("getComputedStyle(document.body).backgroundColor"));
    }
    assert.notEqual(...grounds);
    await send("Emulation.setDeviceMetricsOverride", {width: 390, height: 844, deviceScaleFactor: 1, mobile: true});
    await ask(SHORT);
    await answered();
    assert(await js("document.documentElement.scrollWidth <= innerWidth"));
  },
};

async function visit(url, loaded) {
  urls = [];
  await send("Page.navigate", {url});
  await until(`document.readyState === "complete" && typeof at === "function" && ${loaded}`);
}

async function visitWithKey() {
  await visit(guarded, `at("keys").open`);
  await js(`(at("key").value = "secret", at("key").dispatchEvent(new Event("change")))`);
  await until(`at("model").textContent === "toy"`);
  await ask(SHORT);
  await answered();
  assert.deepEqual(Object.keys(await value()), ["brand", "dark"]);
}

let name = "start";
try {
  const {targetId} = await send("Target.createTarget", {url: "about:blank"});
  ({sessionId: session} = await send("Target.attachToTarget", {targetId, flatten: true}));
  for (const domain of ["Page", "Runtime", "Network"]) await send(`${domain}.enable`);
  for (const one of Object.keys(cases)) {
    name = one;
    await visit(address, `at("what").options.length === 2`);
    await cases[one]();
    for (const url of urls) assert(url.startsWith(address) || url.startsWith("blob:"), `asked the network for ${url}`);
  }
  name = "a key is asked for where the server wants one";
  await visitWithKey();
  assert.deepEqual(problems, []);
} catch (problem) {
  console.error(`${name}: ${problem.stack}`);
  process.exitCode = 1;
} finally {
  browser.kill();
}
