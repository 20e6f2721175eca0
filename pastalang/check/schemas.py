"""Lowers a JSON Schema in a program, `schema("order.json")` or an inline document, to a type with one hole."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from pastalang.check.arguments import read_arguments
from pastalang.check.modules import Module
from pastalang.check.report import Report, listed
from pastalang.grammar import nodes
from pastalang.limits import MAX_HOLE_TOKENS, MAX_SCHEMA_BYTES
from pastalang.program import types as t
from pastalang.values.json import JsonValue, NotJson, parse_json, write_json
from pastalang.values.mismatch import Mismatch
from pastalang.values.schema.drafts import modern
from pastalang.values.schema.guard import find_hostile, find_in_schemas
from pastalang.values.schema.importer import is_endless
from pastalang.values.schema.opaque import opaque_problem
from pastalang.values.schema.split import split_text


def read_schema(node: nodes.NamedType, module: Module, folder: Path | None, report: Report) -> t.Schema | None:
    given = read_arguments(
        node.arguments, owner="`schema`", allowed=("max_tokens",), unnamed=nodes.StringValue, report=report
    )
    max_tokens = given.integer("max_tokens", minimum=1, maximum=MAX_HOLE_TOKENS)
    if not given.has(""):
        report.add(
            "wrong-argument",
            "`schema` needs a file or a JSON Schema in quotes",
            node.span,
            help='write `schema("order.json")`',
        )
        return None
    value = given.by_name[""].value
    assert isinstance(value, nodes.StringValue)
    text = value.text if _is_document(value.text) else _read_file(value, module, folder, report)
    document = None if text is None else _canonical(text, value, report)
    return None if document is None else t.Schema(document, max_tokens=max_tokens)


def _is_document(text: str) -> bool:
    """Whether the text is a JSON document, not the path of a file."""
    return text.lstrip().startswith(("{", "[")) or text.strip() in ("true", "false")


def _read_file(value: nodes.StringValue, module: Module, folder: Path | None, report: Report) -> str | None:
    written = value.text
    if module.path is None or folder is None:
        report.add(
            "bad-schema", "a program given as text has no folder to read a schema from", value.span,
            help="save it to a file and load that, or write the schema inline",
        )  # fmt: skip
        return None
    problem = ""
    if "://" in written:
        problem = "a schema cannot be fetched from a URL"
    elif PurePosixPath(written).is_absolute() or "\\" in written or "\0" in written or not written:
        problem = f"the schema path {written or '(empty)'} is not relative"
    if problem:
        report.add("bad-schema", problem, value.span, help="save the schema next to the program")
        return None
    try:
        path = (module.path.parent / written).resolve()
        if not path.is_relative_to(folder):
            report.add("bad-schema", f"the schema {written} is outside the program's folder", value.span)
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_SCHEMA_BYTES + 1)
        return data.decode("utf-8")
    except UnicodeDecodeError:
        report.add("bad-schema", f"the schema {written} is not UTF-8 text", value.span)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        report.add("bad-schema", f"the schema {written} cannot be read: {reason.lower()}", value.span)
    return None


def _canonical(text: str, value: nodes.StringValue, report: Report) -> str | None:
    """The document as compact JSON, its keys in the order written; None, with a finding, if it cannot be enforced."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_SCHEMA_BYTES:
        report.add("too-large", f"this JSON Schema exceeds the limit of {MAX_SCHEMA_BYTES:,} bytes", value.span)
        return None
    try:
        document = parse_json(text)
    except NotJson as problem:
        report.add("bad-schema", "this JSON Schema is not JSON", value.span, message=str(problem))
        return None
    if not isinstance(document, dict | bool):
        report.add("bad-schema", "a JSON Schema must be an object", value.span)
        return None
    mismatch = document_problem(document)
    if mismatch is not None:
        report.add("bad-schema", "this JSON Schema cannot be enforced", value.span, message=str(mismatch))
        return None
    written = write_json(modern(document))
    if checked := split_text(written).checked:
        report.add(
            "checked-after-decoding",
            "this JSON Schema is checked after decoding",
            value.span,
            message=f"{listed(checked, most=4)} cannot be kept token by token",
            help="a value that fails is decoded again; `repair` says how often before the run ends with `Invalid`",
        )
    return written


def document_problem(document: JsonValue) -> Mismatch | None:
    """The first problem of the document; None if the grammar engine can enforce it."""
    if document is False:
        return Mismatch(("#",), "`false` accepts no value")
    found = (
        find_hostile(document)
        or find_in_schemas(document, opaque_problem)
        or (("", "requires itself, so no value can end") if is_endless(document) else None)
    )
    return None if found is None else Mismatch((f"#{found[0]}",), found[1])
