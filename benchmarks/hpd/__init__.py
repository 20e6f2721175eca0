"""Parallel decoding of attributes, measured: three open data sets, equal budgets, real decoding. Nothing is shipped."""
