"""One self-contained HTML page of a run: who decoded what, when, and what it saw."""
