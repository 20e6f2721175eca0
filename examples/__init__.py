"""Programs to read and to try, and the scripts of `make demo` and `make examples`."""
