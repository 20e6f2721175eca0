"""Validates finished answers and decodes single fields again."""
