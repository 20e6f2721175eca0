"""The recipe of the adapters of `smollm2`; see README.md."""
