"""What a file may be like before it is parsed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pastalang.limits import MAX_FILE_BYTES
from pastalang.reading import Reading, read_bytes, read_file, read_text


def codes(reading: Reading) -> list[str]:
    return [diagnostic.code for diagnostic in reading.diagnostics]


def test_a_missing_file_was_not_opened(tmp_path: Path) -> None:
    reading = read_file(tmp_path / "none.pasta")
    assert codes(reading) == ["file-not-found"]
    assert not reading.was_opened
    assert not reading.is_usable


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    reading = read_file(tmp_path)
    assert codes(reading) == ["file-is-a-folder"]
    assert not reading.was_opened


def test_a_name_that_no_file_can_have_is_reported() -> None:
    assert codes(read_file(Path("a\0b"))) == ["file-not-readable"]


@pytest.mark.skipif(sys.platform == "win32", reason="a special file of Unix")
def test_a_file_without_an_end_is_read_up_to_the_limit() -> None:
    assert codes(read_file(Path("/dev/zero"))) == ["file-too-large"]


def test_a_hundred_megabytes_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.pasta"
    with path.open("wb") as stream:
        stream.truncate(100_000_000)
    reading = read_file(path)
    assert codes(reading) == ["file-too-large"]
    assert len(reading.source.text) <= MAX_FILE_BYTES


def test_line_ends_of_windows_become_line_feeds() -> None:
    assert read_bytes("a", b"one\r\ntwo\n").source.text == "one\ntwo\n"


def test_a_byte_order_mark_is_dropped_with_a_warning() -> None:
    reading = read_bytes("a", b"\xef\xbb\xbftype")
    assert reading.source.text == "type"
    assert codes(reading) == ["byte-order-mark"]
    assert reading.is_usable


def test_the_first_byte_that_is_no_utf8_is_located() -> None:
    reading = read_bytes("a", "é\r\n".encode() + b"ab\xffc")
    (diagnostic,) = reading.diagnostics
    assert diagnostic.code == "not-utf8"
    assert reading.source.place(diagnostic.span.start).line == 2
    assert reading.source.place(diagnostic.span.start).column == 3


def test_a_file_of_another_encoding_is_named() -> None:
    (diagnostic,) = read_bytes("a", "type".encode("utf-16")).diagnostics
    assert "UTF-16" in diagnostic.help[0]


def test_a_lone_surrogate_is_located_and_the_text_can_be_shown() -> None:
    reading = read_text("a", "ab\ud800c")
    (diagnostic,) = reading.diagnostics
    assert diagnostic.code == "bad-character"
    assert diagnostic.span.start == 2
    reading.source.text.encode("utf-8")


def test_the_name_of_a_file_can_always_be_printed() -> None:
    assert read_text("a\udcff\n.pasta", "").source.name.isprintable()
