"""The rules that every plan obeys: a plan comes in, what breaks a rule goes out, one sentence per breach."""
