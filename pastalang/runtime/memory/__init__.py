"""Cells: who owns which, and the keys and values they hold."""
