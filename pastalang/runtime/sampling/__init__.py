"""Sampling: one token from each row of logits."""
