"""The README as an index shows it: links lead to the repository, because an index page has no files beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/pastalang/pastalang"
RAW = "https://raw.githubusercontent.com/pastalang/pastalang"
BRANCH = "main"
_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text)}


def with_absolute_links(text: str) -> str:
    return _LINK.sub(_absolute, text)


def _absolute(link: re.Match[str]) -> str:
    mark, label, target = link.groups()
    base = f"{RAW}/{BRANCH}" if mark else f"{REPOSITORY}/blob/{BRANCH}"
    return f"{mark}{label}({base}/{target})"
