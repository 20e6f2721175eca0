"""Pictures of a plan: text for a terminal, Mermaid, DOT and SVG."""
