"""The version of PastaLang. `hatch` reads it here when it builds the package."""

__version__ = "0.1.0"
