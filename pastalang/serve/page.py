"""The playground page, which the server shows at `/`."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

PAGE: Final = (files("pastalang.serve") / "playground.html").read_text(encoding="utf-8")
