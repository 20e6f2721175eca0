"""From the syntax tree to a checked program: names, types, rules."""
