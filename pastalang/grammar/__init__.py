"""The language itself: its grammar, the syntax tree, the parser and the printer."""
