"""Drafters: what guesses the tokens that branches draw next, and how many guesses a step is worth."""
