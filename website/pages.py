"""The pages of the site and where they stand in the repository, and where the links between them lead.

A page of docs/ is `bulk.md` on the site. Pages beside docs/ keep their paths: `examples/README.md`. A link to another
page becomes a link of the site; one to any other file leads to the repository.
"""

from __future__ import annotations

import posixpath
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
BESIDE_DOCS = (
    "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/LOG.md", "benchmarks/results/*.md", "benchmarks/results/*.svg",
    "editors/vscode/README.md", "examples/README.md", "pastalang/diagnostics/codes/*.md", "pastalang/grammar/SPEC.md",
    "pastalang/weights/pasta-mini/README.md", "recipes/*/README.md",
)  # fmt: skip
START = "index.md"

_TARGET = re.compile(
    r"""(?P<block>^(?P<fence>`{3,}|~{3,})[^\n]*\n.*?^(?P=fence)\s*?$)   # code has no links
      | (?P<code>(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`))
      | \]\((?P<target>[^)\s]+)\)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True)
class Site:
    """`root` is the folder of the repository, `repository` the address at which its files can be read."""

    root: Path
    repository: str

    @classmethod
    def of(cls, root: Path = ROOT) -> Site:
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        return cls(root, project["urls"]["Homepage"])

    @cached_property
    def beside_docs(self) -> tuple[str, ...]:
        """The files that the site takes from beside docs/: paths in the repository, which are those on the site."""
        found = {path for pattern in BESIDE_DOCS for path in self.root.glob(pattern)}
        return tuple(sorted(path.relative_to(self.root).as_posix() for path in found))

    def in_repository(self, page: str) -> str:
        return page if page in self.beside_docs else f"docs/{page}"

    def on_site(self, path: str) -> str | None:
        """The page or picture of the site that a path of the repository is, if it is any."""
        if path == "README.md":
            return START
        if path in self.beside_docs:
            return path
        for index in (f"{path}/README.md", path):
            if index in self.beside_docs or (index.startswith("docs/") and (self.root / index).is_file()):
                return index.removeprefix("docs/")
        return None

    def with_links(self, page: str, text: str) -> str:
        """`text` of a page with links that lead to the same things from the site."""

        def rewritten(found: re.Match[str]) -> str:
            target = found["target"]
            return found[0] if target is None else f"]({self._link(page, target)})"

        return _TARGET.sub(rewritten, text)

    def _link(self, page: str, target: str) -> str:
        name, mark, anchor = target.partition("#")
        if not name or re.match(r"[a-z]+:", name):
            return target
        path = posixpath.normpath(posixpath.join(posixpath.dirname(self.in_repository(page)), name))
        there = self.on_site(path)
        if there is not None:
            return posixpath.relpath(there, posixpath.dirname(page) or ".") + mark + anchor
        if not (self.root / path).exists():
            return target
        kind = "tree" if (self.root / path).is_dir() else "blob"
        return f"{self.repository}/{kind}/main/{path}{mark}{anchor}"
