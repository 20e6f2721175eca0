"""Values that an automaton over bytes knows: numbers, dates, patterns, formats; states, tables, masks."""
