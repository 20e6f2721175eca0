"""Automata over bytes: numbers, dates, patterns and formats."""
