"""How a server is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """`drain`: how long a shutdown waits for accepted requests; `deadline`: how long any request may take. Seconds."""

    name: str  # of the model, as clients call it
    programs: Path | None = None
    reload: bool = False
    api_keys: tuple[str, ...] = ()
    max_in_flight: int = 16
    max_queue: int = 64
    max_body_bytes: int = 4 * 2**20
    deadline: float = 600.0
    drain: float = 30.0
    logs_prompts: bool = False
