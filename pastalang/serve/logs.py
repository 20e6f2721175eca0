"""Logs as JSON lines: one object for each request, without what it said."""

from __future__ import annotations

import json
import logging
import time
from typing import Final

_PLAIN: Final = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """The time, the level, the message, and whatever the record was given besides."""

    def format(self, record: logging.LogRecord) -> str:
        shown = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created)),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **{name: value for name, value in record.__dict__.items() if name not in _PLAIN},
        }
        if record.exc_info:
            shown["error"] = self.formatException(record.exc_info)
        return json.dumps(shown, ensure_ascii=False, default=str)
