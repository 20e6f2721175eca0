"""Pictures of a plan: text for a terminal, and SVG."""
