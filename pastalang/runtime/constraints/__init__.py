"""Constraints: the tokens that a hole may take next, so that its value is valid and complete within its limit.

Start with `guide` (the protocols) and `compile` (a type's guide). `machine_guide` and `grammar/` are the two kinds of
guide; `kinds/` and `dfa/` hold the machines; `vocabulary`, `trie`, `tokens`, `token_bytes` and `masks` are the tokens.
"""
