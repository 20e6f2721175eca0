"""How a server is set up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Settings:
    """In seconds, `drain`: how long a shutdown waits for accepted requests; `deadline`: how long any request may take;
    `patience`: how long its head and its body may take to arrive. `isolate_keys`: callers with different keys share no
    kept prompts."""

    name: str  # of the model, as clients call it
    programs: Path | None = None
    reload: bool = False
    api_keys: tuple[str, ...] = ()
    max_in_flight: int = 16
    max_queue: int = 64
    max_body_bytes: int = 4 * 2**20
    deadline: float = 600.0
    drain: float = 30.0
    patience: float = 30.0
    isolate_keys: bool = False
    logs_prompts: bool = False
