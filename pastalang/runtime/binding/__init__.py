"""Binds a plan to a tokenizer: chat text, white space, and guides compiled once per type."""
