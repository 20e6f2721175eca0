"""Compile the guide of a hole's type: `compile_guide`.

Type                                    Module             Method
booleans, null, literals, enums         choice_machine     a sorted list of spellings
integers, numbers                       automaton_machine  an automaton over digits
dates, times, UUIDs, patterns, formats  automaton_machine  an automaton over positions in the expression
free strings                            string_machine     tokens grouped by the characters they add
verbatim                                verbatim_machine   positions in the source
unions of these                         choice_machine     all arms in parallel
arrays, tuples, maps, objects, schemas  grammar_guide      llguidance, and always a known ending
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.program.visit import NO_TYPES, arms_of, json_kinds
from pastalang.runtime.constraints.automaton_machine import number_machine, pattern_machine
from pastalang.runtime.constraints.choice_machine import ChoiceMachine, UnionMachine
from pastalang.runtime.constraints.guide import Guide, GuideError, Machine
from pastalang.runtime.constraints.lark import NO_SOURCES
from pastalang.runtime.constraints.machine_guide import MachineGuide
from pastalang.runtime.constraints.open_strings import quote_tails
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.string_machine import StringMachine, spell_json, spell_text
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.verbatim_machine import VerbatimMachine, spell_source
from pastalang.values.describe import describe
from pastalang.values.lengths import closed_texts
from pastalang.values.patterns import patterns_of
from pastalang.values.quotes import can_quote

_CLOSED = (t.Boolean, t.Null, t.Literal)  # unions may have very many of them
LINE_END = "\n"


def compile_guide(
    type: t.Type,
    *,
    form: Form,
    follow: str,
    vocabulary: Tokens,
    types: Mapping[str, t.Type] = NO_TYPES,
    sources: Mapping[str, str] = NO_SOURCES,
    forbidden: tuple[str, ...] = (),
) -> Guide:
    """The guide of a hole with the text `follow` after its value. Raises `GuideError` if it cannot enforce the type.

    `sources` are the texts that a `verbatim` quotes from, by name. `forbidden` texts never appear in a free string.
    """
    seam = Seam(vocabulary, follow.encode())
    return _Compiler(seam, form is Form.JSON, types, sources, forbidden).guide(type)


def is_plain(type: t.Type, types: Mapping[str, t.Type]) -> bool:
    """Whether a machine over bytes can recognise it. Nested values and schemas need a grammar."""
    nested = (t.Array, t.Tuple, t.Map, t.Object, t.Schema, t.Anything)
    return not any(isinstance(arm, nested) for arm in arms_of(type, types))


def ends_by_itself(type: t.Type, form: Form, types: Mapping[str, t.Type]) -> bool:
    """Whether the end of every value is certain without the text after it, as of JSON strings and words."""
    return form is Form.JSON and all(
        isinstance(arm, t.Boolean | t.Null) or json_kinds(arm) == {"string"} for arm in arms_of(type, types)
    )


@dataclass(frozen=True, slots=True)
class _Compiler:
    seam: Seam
    quoted: bool
    types: Mapping[str, t.Type]
    sources: Mapping[str, str]
    forbidden: tuple[str, ...]

    def guide(self, type: t.Type) -> Guide:
        type = self.resolve(type)
        if not is_plain(type, self.types):
            from pastalang.runtime.constraints.grammar_guide import compile_grammar_guide

            alone = _Compiler(Seam(self.seam.tokens, b""), True, self.types, self.sources, ())
            return compile_grammar_guide(type, self.types, self.seam, self.sources, plain=alone.machine)
        return MachineGuide(self.machine(type), self.seam)

    def resolve(self, type: t.Type) -> t.Type:
        while isinstance(type, t.Named):
            type = self.types[type.name]
        return type

    def machine(self, type: t.Type) -> Machine:
        type = self.resolve(type)
        if isinstance(type, t.String):
            return self.string(type)
        if patterns := patterns_of(type):
            return pattern_machine(patterns, self.seam, quoted=self.quoted)
        if isinstance(type, _CLOSED):
            return ChoiceMachine(self.closed(type), self.seam)
        if isinstance(type, t.Integer | t.Number):
            return number_machine(type, self.seam)
        if isinstance(type, t.Verbatim):
            return self.verbatim(type)
        if isinstance(type, t.Union):
            return self.union(type)
        raise GuideError(f"{describe(type)} is not a type of plain values")

    def closed(self, type: t.Type) -> list[bytes]:
        return [text.encode() for text in closed_texts(type, quoted=self.quoted)]

    def string(self, type: t.String) -> Machine:
        if patterns := patterns_of(type):
            return pattern_machine(patterns, self.seam, quoted=self.quoted, least=type.min_chars, most=type.max_chars)
        if self.quoted:
            spelling = spell_json(self.forbidden)
        else:
            spelling = spell_text(type.stop or (LINE_END,), self.forbidden)
        is_filled = not self.quoted and not type.may_be_empty and type.max_chars != 0
        return StringMachine(spelling, self.seam, least=max(type.min_chars, int(is_filled)), most=type.max_chars)

    def verbatim(self, type: t.Verbatim) -> Machine:
        text = self.sources.get(type.source)
        if text is None:
            raise GuideError(f"the text of `{type.source}` is needed to quote from it")
        return VerbatimMachine(spell_source(text, type.at, quoted=self.quoted), self.seam, quoted=self.quoted)

    def _has_quotes(self, type: t.Verbatim) -> bool:
        text = self.sources.get(type.source)
        return text is None or can_quote(text, type.at)

    def union(self, type: t.Union) -> Machine:
        """All literals share one list. A verbatim arm is left out if its text has nothing to quote."""
        arms = arms_of(type, self.types)
        closed: list[bytes] = []
        others: list[t.Type] = []
        for arm in arms:
            if isinstance(arm, _CLOSED):
                closed += self.closed(arm)
            elif not isinstance(arm, t.Verbatim) or self._has_quotes(arm):
                others.append(arm)
        machines: list[Machine] = [ChoiceMachine(closed, self.seam)] if closed else []
        machines += map(self.machine, others)
        if not machines:
            raise GuideError("none of the union's types has a value")
        return machines[0] if len(machines) == 1 else UnionMachine(machines, self.seam.tokens)


def prepare_vocabulary(vocabulary: Tokens) -> None:
    """Build what all guides of a vocabulary share, so that compiling the first guide is not slow."""
    vocabulary.begins_some(b"")
    vocabulary.by_text.get(b"")
    vocabulary.shortest(b'"')
    for form in Form:
        guide = compile_guide(t.String(), form=form, follow="", vocabulary=vocabulary)
        assert isinstance(guide, MachineGuide) and isinstance(guide.machine, StringMachine)
        guide.machine.prepare()
    quote_tails(vocabulary)
