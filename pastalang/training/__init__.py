"""Training for parallel decoding, and the measures of what it is worth."""
