"""From a plan to pictures of it: text for a terminal, Mermaid, DOT, and our own SVG."""
