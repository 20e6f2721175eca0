"""Constraints: the tokens that a hole may take next, so that its value is valid and complete within its limit.

Start with `guide` (the protocols) and `compile` (a type's guide). There are two kinds of guides:

    machine_guide   plain values: `choice_machine`, `automaton_machine`, `string_machine`, `verbatim_machine`
    grammar_guide   nested values: `lark` writes the grammar, `matcher` is llguidance, `ending` closes a value

`vocabulary`, `tokens`, `masks` and `seam` are the tokens.
"""
