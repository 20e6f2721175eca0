"""`make demo`: a small model extracts attributes from listings on the terminal."""
