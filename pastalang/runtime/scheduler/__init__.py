"""Deciding: which branch moves, what it is fed, what it sees, which cells it owns. Plain Python, no tensors."""
