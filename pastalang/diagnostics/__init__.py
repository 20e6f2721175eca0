"""Diagnostics as values, their codes, and how they are shown."""
