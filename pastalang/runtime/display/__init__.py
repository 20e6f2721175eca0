"""Ways to look at a finished run: a timeline as text, and self-contained HTML pages of its branches and its sources."""
