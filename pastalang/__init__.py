"""PastaLang: declare what a language model should write; decode what is independent at the same time."""

__version__ = "0.1.0"
