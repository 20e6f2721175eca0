"""The recipe of pasta-mini: a small model from nothing to extraction, in every mode, with one set of weights."""
