"""Two ways to look at a finished run: a timeline as text and a self-contained HTML page."""
