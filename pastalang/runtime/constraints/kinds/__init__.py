"""Kinds of values that need no automaton: choices, free strings, quotations, unions."""
