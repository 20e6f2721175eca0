"""Values that nest: grammars matched by llguidance, and what a grammar cannot say or says slowly."""
