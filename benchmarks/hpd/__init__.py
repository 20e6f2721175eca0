"""An experiment on parallel decoding: three open data sets, equal budgets, real decoding. It is not shipped."""
