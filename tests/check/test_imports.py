"""Imports: what they bring, and that they never leave the program's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pastalang import check_path, load
from pastalang.program import types as t
from pastalang.program.program import JsonBody

USES_MONEY = 'import Money from "{}"\n\ntemplate t()\nassistant json {{ price: Money }}\n'
MONEY = "type Money = { amount: number }\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "main.pasta"


def codes(path: Path) -> list[str]:
    return [one.code for one in check_path(path)[1]]


def test_a_type_of_another_file_is_written_out(tmp_path: Path) -> None:
    main = write(tmp_path, {"main.pasta": USES_MONEY.format("./lib/money.pasta"), "lib/money.pasta": MONEY})
    body = load(main).only_template.messages[-1].body
    assert isinstance(body, JsonBody) and isinstance(body.type, t.Object)
    money = body.type.fields[0].type
    assert isinstance(money, t.Object) and money.fields[0].key == "amount"


def test_a_path_is_relative_to_the_file_that_imports(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        {
            "main.pasta": USES_MONEY.format("./lib/money.pasta"),
            "lib/money.pasta": 'import Amount from "../amount.pasta"\ntype Money = { amount: Amount }\n',
            "amount.pasta": "type Amount = number(min=0)\n",
        },
    )
    assert codes(main) == []


def test_a_template_of_another_file_can_be_run_from_here(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        {"main.pasta": 'import other from "./o.pasta"\n', "o.pasta": "template other()\nassistant json { a: date }\n"},
    )
    assert list(load(main).templates) == ["other"]


def test_recursive_types_of_one_name_in_two_files_stay_apart(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        {
            "main.pasta": 'import Leaf from "./o.pasta"\ntype Node = { a: Node | null }\n'
            "template t()\nassistant json { mine: Node, other: Leaf }\n",
            "o.pasta": "type Leaf = { b: Node }\ntype Node = { c: Node | null }\n",
        },
    )
    types = load(main).types
    keys = [
        [field.key for field in type.fields] for name, type in types.items() if name.startswith("Node")
        and isinstance(type, t.Object)
    ]  # fmt: skip
    assert sorted(keys) == [["a"], ["c"]]


@pytest.mark.parametrize(
    "path",
    [
        "../outside.pasta",
        "./a/../../outside.pasta",
        "/etc/passwd",
        "C:\\x.pasta",
        "~/x.pasta",
        "https://a.b/c.pasta",
        "",
    ],
)
def test_a_path_that_leaves_the_folder_is_refused_without_being_opened(tmp_path: Path, path: str) -> None:
    write(tmp_path, {"outside.pasta": MONEY, "in/main.pasta": USES_MONEY.format(path.replace("\\", "\\\\"))})
    assert codes(tmp_path / "in" / "main.pasta") == ["bad-import"]


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"secret.pasta": MONEY, "in/main.pasta": USES_MONEY.format("./money.pasta")})
    (tmp_path / "in" / "money.pasta").symlink_to(tmp_path / "secret.pasta")
    assert codes(tmp_path / "in" / "main.pasta") == ["bad-import"]


def test_a_schema_outside_the_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"s.json": "{}", "in/main.pasta": 'template t()\nassistant json { a: schema("../s.json") }\n'})
    assert codes(tmp_path / "in" / "main.pasta") == ["bad-schema"]


def test_a_schema_beside_the_program_becomes_part_of_it(tmp_path: Path) -> None:
    text = 'template t()\nassistant json { a: schema("s.json") }\n'
    main = write(tmp_path, {"main.pasta": text, "s.json": '{ "type" : "integer" }\n'})
    body = load(main).only_template.messages[-1].body
    assert isinstance(body, JsonBody) and isinstance(body.type, t.Object)
    assert body.type.fields[0].type == t.Schema('{"type":"integer"}')


def test_a_problem_in_an_imported_file_is_shown_there(tmp_path: Path) -> None:
    main = write(
        tmp_path, {"main.pasta": USES_MONEY.format("./money.pasta"), "money.pasta": "type Money = { amount: numbr }\n"}
    )
    (found,) = check_path(main)[1]
    assert (found.code, found.source.name) == ("unknown-name", str(tmp_path / "money.pasta"))


def test_a_name_that_an_import_did_not_bring_is_reported_once(tmp_path: Path) -> None:
    assert codes(write(tmp_path, {"main.pasta": USES_MONEY.format("./missing.pasta")})) == ["bad-import"]


def test_files_may_import_the_same_file(tmp_path: Path) -> None:
    main = write(
        tmp_path,
        {
            "main.pasta": 'import A from "./a.pasta"\nimport B from "./b.pasta"\n'
            "template t()\nassistant json { a: A, b: B }\n",
            "a.pasta": 'import Money from "./money.pasta"\ntype A = { x: Money }\n',
            "b.pasta": 'import Money from "./money.pasta"\ntype B = { y: Money }\n',
            "money.pasta": MONEY,
        },
    )
    assert codes(main) == []
