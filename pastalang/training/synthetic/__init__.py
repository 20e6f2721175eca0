"""Product listings made up from a seed: titles, descriptions and the attributes they state."""
