"""A model that is named as on the hub: where the hub cannot be reached, what was fetched before is all there is.

The library of the hub tries again and again and says so each time; told beforehand, it looks on the disk alone.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from pastalang.runtime.model.shipped import NAMES

OFFLINE: Final = "HF_HUB_OFFLINE"
_ENDPOINT: Final = "https://huggingface.co"
_PATIENCE: Final = 5.0  # seconds


def look_for_hub(model: str) -> None:
    """Before the libraries of models are imported: they read once whether there is a network."""
    if model in NAMES or Path(model).exists() or OFFLINE in os.environ or can_be_reached():
        return
    os.environ[OFFLINE] = "1"
    constants = sys.modules.get("huggingface_hub.constants")
    if constants is not None:  # somebody has imported it already
        constants.HF_HUB_OFFLINE = True  # type: ignore[attr-defined]


def can_be_reached() -> bool:
    """Whether somebody answers at its address. A proxy is left to try, as only the library knows how."""
    if getproxies():
        return True
    place = urlsplit(os.environ.get("HF_ENDPOINT") or _ENDPOINT)
    port = place.port or (80 if place.scheme == "http" else 443)
    try:
        with socket.create_connection((place.hostname or "", port), timeout=_PATIENCE):
            return True
    except OSError:
        return False
