"""The recipe of pasta-mini: trains a small extraction model from nothing, one set of weights for every mode."""
