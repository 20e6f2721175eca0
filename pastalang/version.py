"""The version of PastaLang. `hatch` reads it here when it builds the package."""

__version__ = "0.2.0"
