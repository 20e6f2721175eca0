"""A lock that a process has on an open file until it closes it, ends or is killed."""

from __future__ import annotations

import sys
from typing import IO

if sys.platform == "win32":
    import msvcrt

    def lock_file(stream: IO[str]) -> bool:
        """Returns False if another process has the lock."""
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def lock_file(stream: IO[str]) -> bool:
        """Returns False if another process has the lock."""
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
