"""Guides of nested values: llguidance matches a grammar, and this package adds what a grammar cannot express."""
