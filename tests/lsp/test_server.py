"""The language server as an editor drives it: a process that is asked over its standard input."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

TYPES = 'type Money = {\n  amount: number(min=0)\n  currency: "EUR" | "USD"\n}\n'
PROGRAM = '''import Money from "./types.pasta"

template bill(title: text)

user """
🎈 Title: {title} 🎈
{schema}
"""

assistant json {
  brand: string(max=12) | null
  price: Money
  quote: verbatim(title, max=8)
  headline: string(max=24) after brand "in one line"
}
'''
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}  # and the bytes of what is counted


class Editor:
    """Opens programs of a folder, and asks about places that are written as the text before them."""

    def __init__(self, folder: Path, **capabilities: Any) -> None:
        self.folder, self.number, self.texts = folder, 0, dict[str, str]()
        self.diagnostics: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []  # by the server
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pastalang", "lsp"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        agreed = self.ask("initialize", processId=None, rootUri=folder.as_uri(), capabilities=capabilities)
        assert agreed["capabilities"]["textDocumentSync"]["change"] == 1  # whole texts: pygls ends lines at U+2028 too
        self.codec, self.unit = CODECS[agreed["capabilities"]["positionEncoding"]]
        self.tell("initialized")

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while (message := self._receive()).get("id") != self.number:
            self._take(message)
        refused = message.get("error")
        assert not refused or (method, refused["code"]) == ("textDocument/rename", -32602), message
        return refused["message"] if refused else message["result"]

    def wait_for(self, method: str) -> None:
        while method not in self.asked:
            self._take(self._receive())
        self.asked.remove(method)

    def _take(self, message: dict[str, Any]) -> None:
        if message["method"] == "textDocument/publishDiagnostics":
            self.diagnostics[message["params"]["uri"]] = message["params"]["diagnostics"]
        elif "id" in message:
            self.asked.append(message["method"])
            self._send({"id": message["id"], "result": None})

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self.process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        headers = [line for line in iter(stream.readline, b"\r\n") if line]
        size = next(int(line.split(b":")[1]) for line in headers if line.lower().startswith(b"content-length"))
        found: dict[str, Any] = json.loads(stream.read(size))
        return found

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, "utf-8")
        document = {"uri": self.uri(name), "languageId": "pasta", "version": 1, "text": text}
        self.texts[name] = text
        self.tell("textDocument/didOpen", textDocument=document)

    def change(self, name: str, text: str) -> list[dict[str, Any]]:
        """The diagnostics of the new text."""
        self.texts[name] = text
        document = {"uri": self.uri(name), "version": len(self.texts) + self.number}
        self.tell("textDocument/didChange", textDocument=document, contentChanges=[{"text": text}])
        return self.problems(name)

    def problems(self, name: str) -> list[dict[str, Any]]:
        self.at("hover", name, "")
        return self.diagnostics[self.uri(name)]

    def at(self, method: str, name: str, before: str, **params: Any) -> Any:
        text = self.texts[name]
        lines = text[: text.index(before) + len(before)].split("\n")
        place = {"line": len(lines) - 1, "character": len(lines[-1].encode(self.codec)) // self.unit}
        return self.ask(f"textDocument/{method}", textDocument={"uri": self.uri(name)}, position=place, **params)

    def of(self, method: str, name: str, **params: Any) -> Any:
        return self.ask(f"textDocument/{method}", textDocument={"uri": self.uri(name)}, **params)

    def leave(self) -> None:
        self.ask("shutdown")
        self.tell("exit")
        self.process.communicate(timeout=20)
        assert self.process.returncode == 0

    def slice(self, name: str, where: Any) -> str:
        lines = self.texts[name].split("\n")
        (start, end), line = (where["start"], where["end"]), lines[where["start"]["line"]].encode(self.codec)
        assert start["line"] == end["line"]
        return line[self.unit * start["character"] : self.unit * end["character"]].decode(self.codec)


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "folder.pasta").mkdir()
    (folder / "latin.pasta").write_bytes(b"# caf\xe9\n")
    (link := folder.with_name("link")).symlink_to(folder)
    watching = {"didChangeWatchedFiles": {"dynamicRegistration": True}}
    found = Editor(link, workspace=watching, general={"positionEncodings": ["utf-8", "utf-16"]})
    found.open("types.pasta", TYPES)
    found.open("bill.pasta", PROGRAM)
    yield found
    found.leave()


def test_a_program_is_checked_while_it_is_typed_and_each_suggestion_is_a_change(editor: Editor) -> None:
    assert editor.change("bill.pasta", PROGRAM) == []
    for old, new, wrong, right in (
        ("after brand", "after brnad", "brnad", "brand"), ("max=12", 'format="emial"', '"emial"', '"email"'),
        ("max=8", 'at="wods"', '"wods"', '"words"'),
        ("  quote", '  "an id": boolean\n  x: boolean after an_id\n  quote', "an_id", '"an id"'),
    ):  # fmt: skip
        [found], meant = editor.change("bill.pasta", PROGRAM.replace(old, new)), right.strip('"')
        assert found["code"] in ("unknown-name", "wrong-argument") and f"did you mean `{meant}`" in found["message"]
        assert editor.slice("bill.pasta", found["range"]) == wrong
        [action] = editor.of("codeAction", "bill.pasta", range=found["range"], context={"diagnostics": [found]})
        [edit] = action["edit"]["changes"][editor.uri("bill.pasta")]
        assert (action["title"], edit["newText"], edit["range"]) == (f"change to `{meant}`", right, found["range"])
    [twice, *_] = editor.change("bill.pasta", PROGRAM.replace("  quote", "  brand"))
    assert twice["code"] == "duplicate-field" and twice["relatedInformation"]
    editor.change("bill.pasta", PROGRAM)


def test_a_name_says_what_it_is_and_where_it_is_declared(editor: Editor) -> None:
    said = editor.at("hover", "bill.pasta", "  headl")["contents"]["value"]
    assert "string(max=24)" in said and "in one line" in said and "waits for `brand`" in said and "at most 24" in said
    assert "currency" in editor.at("hover", "bill.pasta", "  price: Mon")["contents"]["value"]
    assert "an input" in editor.at("hover", "bill.pasta", "verbatim(tit")["contents"]["value"]
    for before, name, declared in (
        ("price: Mon", "types.pasta", "Money"), ("after bra", "bill.pasta", "brand"),
        ("Title: {ti", "bill.pasta", "title"),
    ):  # fmt: skip
        there = editor.at("definition", "bill.pasta", before)
        assert there["uri"] == editor.uri(name) and editor.slice(name, there["range"]) == declared
    assert editor.at("definition", "bill.pasta", "Title: {title} 🎈\n") is None


def test_a_name_is_changed_wherever_it_is_meant(editor: Editor) -> None:
    changes = editor.at("rename", "bill.pasta", "price: Mon", newName="Price")["changes"]
    assert {uri: len(edits) for uri, edits in changes.items()} == {
        editor.uri("types.pasta"): 1, editor.uri("bill.pasta"): 2,
    }  # fmt: skip
    edits = editor.at("rename", "bill.pasta", "(tit", newName="name")["changes"][editor.uri("bill.pasta")]
    assert len(edits) == 3 and {editor.slice("bill.pasta", one["range"]) for one in edits} == {"title"}
    assert editor.at("rename", "bill.pasta", "brand: str", newName="text") is None
    editor.open("all.pasta", 'import bill from "./bill.pasta"\n')
    for name, before in (("bill.pasta", "template bi"), ("all.pasta", "import bi")):
        assert editor.at("hover", name, before)["contents"]["value"].startswith("template `bill`: 5 values")
        changes = editor.at("rename", name, before, newName="invoice")["changes"]
        assert changes.keys() == {editor.uri("bill.pasta"), editor.uri("all.pasta")}
    for before, names in (("price: Mon", "string bill null"), ("template bi", "Money"), ("  headl", "brand a-b")):
        assert all(new in editor.at("rename", "bill.pasta", before, newName=new) for new in names.split())


def test_a_program_is_checked_with_what_others_are_now(editor: Editor) -> None:
    assert "client/registerCapability" in editor.asked  # so the editor reports what changes beside it
    lost = TYPES.replace("Money", "Cash")
    assert editor.change("types.pasta", lost) == [] != editor.problems("bill.pasta")
    assert editor.change("types.pasta", TYPES) == [] == editor.problems("bill.pasta")
    (editor.folder / "types.pasta").write_text(lost, "utf-8")
    editor.tell("textDocument/didClose", textDocument={"uri": editor.uri("types.pasta")})
    assert editor.problems("bill.pasta") != []
    (editor.folder / "types.pasta").write_text(TYPES, "utf-8")
    editor.tell("workspace/didChangeWatchedFiles", changes=[{"uri": editor.uri("types.pasta"), "type": 2}])
    assert editor.problems("bill.pasta") == []
    editor.open("types.pasta", lost)
    assert editor.problems("bill.pasta") != [] == editor.change("types.pasta", TYPES)


def test_a_program_is_read_when_it_is_opened_also_if_a_name_was_changed_in_it(editor: Editor) -> None:
    (editor.folder / "other.pasta").write_text(PROGRAM, "utf-8")
    assert len(editor.at("rename", "types.pasta", "type Mon", newName="Price")["changes"]) == 3
    editor.open("other.pasta", "# above\n" + PROGRAM.replace("  quote", "   quote"))
    [edit] = editor.of("formatting", "other.pasta", options={"tabSize": 2, "insertSpaces": True})
    assert edit["range"]["start"]["line"] == PROGRAM[: PROGRAM.index("  quote")].count("\n") + 1


def test_what_may_stand_at_a_place_is_proposed(editor: Editor) -> None:
    for before, after, some in (
        ("after ", "headline: string after ", {"brand", "price", "quote"}),
        ("  price: ", "  price: ", {"Money", "string"}), ("(title: ", "(title: ", {"text", "messages"}),
        ("Title: {", "Title: {", {"title"}), ("verbatim(", "verbatim(", {"title"}),
    ):  # fmt: skip
        text = PROGRAM[: PROGRAM.index(before)] + after.removeprefix("headline: string ")
        editor.change("bill.pasta", text + ("\n}" if before == "after " else ""))
        labels = {one["label"] for one in editor.at("completion", "bill.pasta", text)}
        assert some <= labels and "headline" not in labels and ("string" in labels) is (before == "  price: ")
    editor.change("bill.pasta", "te")
    assert "template" in {one["label"] for one in editor.at("completion", "bill.pasta", "te")}
    editor.change("bill.pasta", PROGRAM)


def test_a_program_has_symbols_a_canonical_form_and_a_forecast(editor: Editor) -> None:
    [bill] = editor.of("documentSymbol", "bill.pasta")
    assert (bill["name"], [one["name"] for one in bill["children"]]) == (
        "bill", ["title", "brand", "price", "quote", "headline"],
    )  # fmt: skip
    [lens] = editor.of("codeLens", "bill.pasta")
    assert lens["command"]["title"] == "5 values, 36 passes, 1.7x"
    editor.change("bill.pasta", PROGRAM.replace("  brand: ", "      brand:"))
    [edit] = editor.of("formatting", "bill.pasta", options={"tabSize": 2, "insertSpaces": True})
    assert edit["newText"] == "  brand: string(max=12) | null\n"
    lines = {place: edit["range"][place]["line"] for place in ("start", "end")}
    assert lines == {"start": 10, "end": 11} and edit["range"]["end"]["character"] == 0
    editor.change("bill.pasta", PROGRAM.replace("{", "[", 1))
    assert editor.of("formatting", "bill.pasta", options={"tabSize": 2, "insertSpaces": True}) is None
    assert editor.of("codeLens", "bill.pasta") == []
    editor.change("bill.pasta", PROGRAM)


def test_an_editor_that_can_ask_again_does_not_wait_for_a_forecast(tmp_path: Path) -> None:
    editor = Editor(tmp_path, workspace={"codeLens": {"refreshSupport": True}})
    editor.open("types.pasta", TYPES)
    editor.open("bill.pasta", PROGRAM)
    assert editor.slice("bill.pasta", editor.at("hover", "bill.pasta", "Title: {ti")["range"]) == "title"
    assert editor.of("codeLens", "bill.pasta") == []
    editor.wait_for("workspace/codeLens/refresh")
    [lens] = editor.of("codeLens", "bill.pasta")
    assert lens["command"]["title"] == "5 values, 36 passes, 1.7x"
    editor.change("bill.pasta", PROGRAM.replace("max=24", "max=25"))
    [earlier] = editor.of("codeLens", "bill.pasta")
    assert earlier == lens  # until the new one is known
    editor.wait_for("workspace/codeLens/refresh")
    [lens] = editor.of("codeLens", "bill.pasta")
    assert lens["command"]["title"] == "5 values, 37 passes, 1.7x" and editor.asked == []
    editor.change("bill.pasta", PROGRAM)
    [lens] = editor.of("codeLens", "bill.pasta")
    assert lens == earlier and editor.asked == []  # it was known
    editor.change("bill.pasta", PROGRAM.replace("after brand", "after brnad"))
    assert editor.of("codeLens", "bill.pasta") == []
    editor.leave()


def test_three_hundred_random_edits_are_survived(editor: Editor) -> None:
    rng, text = random.Random(0), PROGRAM
    for number in range(300):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 0, 1, 5, 40)))
        new = rng.choice(("", "{", '"""', " after ", "x", "\n", "🎈", "type T = ", PROGRAM[9:60]))
        text = text[:start] + new + text[end:]
        text = PROGRAM if number % 40 == 39 else text
        editor.change("bill.pasta", text)
        for method, params in (("hover", {}), ("completion", {}), ("definition", {}), ("rename", {"newName": "new"})):
            editor.at(method, "bill.pasta", text[: rng.randrange(len(text) + 1)], **params)
        everywhere = {"start": {"line": 0, "character": 0}, "end": {"line": 999, "character": 0}}
        editor.of("codeAction", "bill.pasta", range=everywhere, context={"diagnostics": []})
        assert editor.of("documentSymbol", "bill.pasta") is not None and editor.of("codeLens", "bill.pasta") is not None
        editor.of("formatting", "bill.pasta", options={"tabSize": 2, "insertSpaces": True})
    assert editor.change("bill.pasta", PROGRAM) == [] and editor.process.poll() is None
