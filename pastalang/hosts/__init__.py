"""Programs on other hosts: servers that are asked for values, or for whole answers."""
