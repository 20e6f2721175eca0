"use strict";

const { execFile } = require("node:child_process");
const path = require("node:path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

const DOCUMENTS = [{ language: "pasta", scheme: "file" }, { language: "pasta", scheme: "untitled" }];
const TEMPLATE = 12; // how the protocol numbers the kind of symbol that the server gives a template: Function
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

let client;
let started = Promise.resolve(); // starts and stops come one after another
let panel;
let shown; // the document and the template in the panel

function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("pastalang.showPlan", showPlan),
    vscode.workspace.onDidSaveTextDocument((document) => {
      if (shown?.document === document) return show({ ...shown });
    }),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("pastalang.command")) started = started.then(stop).then(start);
    }),
  );
  started = started.then(start);
  return started;
}

function deactivate() {
  started = started.then(stop);
  return started;
}

function command() {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
  return vscode.workspace.getConfiguration("pastalang").get("command").replaceAll("${workspaceFolder}", folder);
}

async function start() {
  const server = { command: command(), args: ["lsp"] };
  client = new LanguageClient("pastalang", "PastaLang", server, { documentSelector: DOCUMENTS });
  try {
    await client.start();
  } catch (problem) {
    const advice = "Install it with pip install 'pastalang[lsp]', or name it in the setting pastalang.command.";
    vscode.window.showErrorMessage(`\`${server.command} lsp\` does not start: ${problem.message}. ${advice}`);
  }
}

async function stop() {
  if (client?.needsStop()) await client.stop();
}

// ── the plan ────────────────────────────────────────────────────────────────────────────────────────────

async function showPlan() {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.languageId !== "pasta") {
    vscode.window.showErrorMessage("Open a .pasta file to see its plan.");
    return;
  }
  const { document, selection } = editor;
  if (panel === undefined) {
    panel = vscode.window.createWebviewPanel("pastalang.plan", "Plan", vscode.ViewColumn.Beside, {});
    panel.onDidDispose(() => (panel = shown = undefined));
  }
  await show({ document, template: await templateAt(document, selection.active.line) });
}

/** The template at a line; without a server, none. */
async function templateAt(document, line) {
  await started;
  if (!client?.isRunning()) return undefined;
  const request = { textDocument: { uri: document.uri.toString() } };
  const symbols = (await client.sendRequest("textDocument/documentSymbol", request)) ?? [];
  const templates = symbols.filter((symbol) => symbol.kind === TEMPLATE);
  return (templates.findLast((symbol) => symbol.range.start.line <= line) ?? templates[0])?.name;
}

async function show(plan) {
  shown = plan;
  const body = await pictureOf(plan);
  if (shown !== plan) return; // something else was asked for in the meantime
  panel.title = `Plan of ${plan.template ?? path.basename(plan.document.fileName)}`;
  const head = `<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}">`;
  panel.webview.html = `<!doctype html><html><head>${head}</head><body>${body}</body></html>`;
}

/** The plan of a file as it is saved, because it may import others; of a document without a file, of its text. */
function pictureOf({ document, template }) {
  const isFile = document.uri.scheme === "file";
  const chosen = template === undefined ? [] : ["--template", template];
  const args = ["plan", isFile ? document.uri.fsPath : "-", "--format", "svg", ...chosen];
  const options = { cwd: isFile ? path.dirname(document.uri.fsPath) : undefined, maxBuffer: 2 ** 26, timeout: 60_000 };
  return new Promise((resolve) => {
    const child = execFile(command(), args, options, (problem, picture, said) =>
      resolve(problem ? `<pre>${escaped(said || problem.message)}</pre>` : picture),
    );
    child.stdin.on("error", () => {}); // a command that ends before it has read everything says why itself
    child.stdin.end(isFile ? "" : document.getText());
  });
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}

module.exports = { activate, deactivate };
