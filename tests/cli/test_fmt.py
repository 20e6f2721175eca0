"""`pasta fmt`: what it writes, what it leaves alone, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import pasta

UGLY = "type   A=string\n"
PRETTY = "type A = string\n"
BROKEN = "type A = {\n"


def run(*words: str, given: str | bytes = "") -> tuple[int, str, str]:
    """The exit code and what was written to the standard output and the standard error."""
    result = pasta("fmt", *words, input=given)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def ugly(tmp_path: Path) -> Path:
    path = tmp_path / "a.pasta"
    path.write_text(UGLY, encoding="utf-8")
    return path


def test_a_file_is_formatted_in_place_and_keeps_its_mode(ugly: Path) -> None:
    ugly.chmod(0o640)
    code, output, _ = run(str(ugly))
    assert code == 0
    assert "reformatted" in output
    assert ugly.read_text(encoding="utf-8") == PRETTY
    assert ugly.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in ugly.parent.iterdir()] == ["a.pasta"]


def test_a_formatted_file_is_not_touched(ugly: Path) -> None:
    ugly.write_text(PRETTY, encoding="utf-8")
    before = ugly.stat().st_mtime_ns
    assert run(str(ugly))[0] == 0
    assert ugly.stat().st_mtime_ns == before


def test_check_changes_nothing_and_says_what_would_change(ugly: Path) -> None:
    code, output, _ = run("--check", str(ugly))
    assert code == 1 and "would be reformatted" in output
    assert ugly.read_text(encoding="utf-8") == UGLY


def test_check_accepts_a_formatted_file(ugly: Path) -> None:
    ugly.write_text(PRETTY, encoding="utf-8")
    assert run("--check", str(ugly)) == (0, "", "")


def test_diff_shows_what_would_change(ugly: Path) -> None:
    code, output, _ = run("--diff", str(ugly))
    assert code == 1
    assert "-type   A=string\n+type A = string\n" in output
    assert ugly.read_text(encoding="utf-8") == UGLY
    ugly.write_text(f"\ufeff{PRETTY}", encoding="utf-8")
    assert run("--diff", str(ugly))[:2] == (1, f"{ugly}: only the byte order mark at its beginning would go\n")


def test_a_line_of_a_diff_ends_at_a_line_feed_alone() -> None:
    odd = 'type B = "\u2028"\n'
    code, output, _ = run("--diff", "-", given=UGLY + odd)
    assert code == 1 and output.endswith(f'-{UGLY}-{odd}+{PRETTY}+type B = "\\u2028"\n')


def test_the_standard_input_goes_to_the_standard_output() -> None:
    assert run("-", given=UGLY) == (0, PRETTY, "")


def test_the_standard_input_can_be_checked() -> None:
    assert run("--check", "-", given=UGLY)[0] == 1
    assert run("--check", "-", given=PRETTY)[0] == 0


def test_a_program_with_errors_is_explained_and_left_alone(ugly: Path) -> None:
    ugly.write_text(BROKEN, encoding="utf-8")
    code, output, errors = run(str(ugly))
    assert code == 1
    assert output == ""
    assert "unclosed-brace" in errors
    assert ugly.read_text(encoding="utf-8") == BROKEN


def test_one_broken_program_does_not_keep_the_others_from_being_formatted(ugly: Path) -> None:
    ugly.with_name("b.pasta").write_text(BROKEN, encoding="utf-8")
    assert run(str(ugly.parent))[0] == 1
    assert ugly.read_text(encoding="utf-8") == PRETTY


def test_line_ends_of_windows_stay(ugly: Path) -> None:
    before, after = (text.replace("\n", "\r\n").encode() for text in (UGLY, PRETTY))
    ugly.write_bytes(before)
    assert pasta("fmt", "-", input=before).stdout_bytes == after
    assert run(str(ugly))[0] == 0
    assert ugly.read_bytes() == after


def test_a_byte_order_mark_is_removed(ugly: Path) -> None:
    ugly.write_bytes(b"\xef\xbb\xbf" + PRETTY.encode())
    assert run("--check", str(ugly))[0] == 1
    assert run(str(ugly))[0] == 0
    assert ugly.read_bytes() == PRETTY.encode()


def test_a_link_stays_a_link(ugly: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.pasta"
    link.symlink_to(ugly)
    assert run(str(link))[0] == 0
    assert link.is_symlink()
    assert ugly.read_text(encoding="utf-8") == PRETTY


def test_a_missing_file_ends_with_three() -> None:
    code, _, errors = run("none.pasta")
    assert code == 3
    assert "file-not-found" in errors


def test_no_file_at_all_is_wrong_usage() -> None:
    assert run()[0] == 2
