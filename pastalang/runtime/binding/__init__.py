"""Binds a plan to a tokenizer: the words of its chat template, white space, and guides compiled once per type."""
