"""Models that the engine can run. `protocol` is the interface; the rest loads, checks and adapts models."""
