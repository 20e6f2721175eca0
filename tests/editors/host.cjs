// What VS Code gives an extension, as far as this one asks for it: `node host.cjs EXTENSION COMMAND FILE LINE`.
// The file is opened, its plan shown, and the problems and the page of the panel are written as JSON.
"use strict";
const { spawn } = require("node:child_process");
const fs = require("node:fs");
const Module = require("node:module");
const { pathToFileURL } = require("node:url");

const [extension, command, file, line] = process.argv.slice(2);
const found = { errors: [], problems: undefined, page: undefined, selector: undefined };
const uri = { scheme: "file", fsPath: file, toString: () => pathToFileURL(file).href };
const document = { uri, fileName: file, languageId: "pasta", getText: () => fs.readFileSync(file, "utf-8") };
const commands = {};
const nothing = () => ({ dispose() {} });
let opened; // resolved with the first problems

class LanguageClient {
  constructor(id, name, server, { documentSelector }) {
    Object.assign(this, { server, waiting: new Map(), number: 0, rest: Buffer.alloc(0), running: false });
    found.selector = documentSelector;
  }
  async start() {
    const child = (this.child = spawn(this.server.command, this.server.args, { stdio: ["pipe", "pipe", "inherit"] }));
    await new Promise((resolve, reject) => child.on("spawn", resolve).on("error", reject));
    child.stdout.on("data", (bytes) => this.receive(bytes));
    await this.sendRequest("initialize", { processId: null, rootUri: null, capabilities: {} });
    this.send({ method: "initialized", params: {} });
    this.running = true;
    const problems = new Promise((resolve) => (opened = resolve));
    const textDocument = { uri: String(uri), languageId: "pasta", version: 1, text: document.getText() };
    this.send({ method: "textDocument/didOpen", params: { textDocument } });
    found.problems = await problems;
  }
  isRunning = () => this.running;
  needsStop = () => this.running;
  async stop() {
    await this.sendRequest("shutdown");
    this.send({ method: "exit" });
    await new Promise((resolve) => this.child.on("close", resolve));
  }
  sendRequest(method, params) {
    this.send({ id: ++this.number, method, params });
    return new Promise((resolve) => this.waiting.set(this.number, resolve));
  }
  send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message }));
    this.child.stdin.write(`Content-Length: ${body.length}\r\n\r\n${body}`);
  }
  receive(bytes) {
    this.rest = Buffer.concat([this.rest, bytes]);
    for (let head; (head = this.rest.indexOf("\r\n\r\n")) >= 0; ) {
      const end = head + 4 + Number(/content-length: *(\d+)/i.exec(this.rest.toString("latin1", 0, head))[1]);
      if (this.rest.length < end) return;
      const message = JSON.parse(this.rest.toString("utf-8", head + 4, end));
      this.rest = this.rest.subarray(end);
      if (message.method === "textDocument/publishDiagnostics") opened(message.params.diagnostics);
      else if (message.method === undefined) this.waiting.get(message.id)(message.result);
    }
  }
}

const vscode = {
  ViewColumn: { Beside: -2 },
  commands: { registerCommand: (name, call) => ((commands[name] = call), nothing()) },
  window: {
    activeTextEditor: { document, selection: { active: { line: Number(line) } } },
    createWebviewPanel: () => (found.panel = { webview: {}, onDidDispose: nothing }),
    showErrorMessage: (message) => found.errors.push(message),
  },
  workspace: {
    workspaceFolders: undefined,
    getConfiguration: () => ({ get: () => command }),
    onDidSaveTextDocument: (call) => ((found.saved = call), nothing()),
    onDidChangeConfiguration: nothing,
  },
};
const given = { vscode, "vscode-languageclient/node": { LanguageClient } };
const load = Module._load;
Module._load = (name, ...rest) => given[name] ?? load(name, ...rest);

(async () => {
  const { activate, deactivate } = require(extension);
  await activate({ subscriptions: [] });
  await commands["pastalang.showPlan"]();
  const { title, webview } = found.panel;
  webview.html += " (saved)";
  await found.saved(document);
  await deactivate();
  console.log(JSON.stringify({ ...found, title, page: webview.html }));
})();
