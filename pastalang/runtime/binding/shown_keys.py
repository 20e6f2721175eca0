"""What a model reads in the place of a key: weights that were trained on words read `Roast type` for `roast_type`.

The keys of the answer do not change, and neither does the plan: only what the model is fed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pastalang.plan.branches import Arm, Choose, Hole, InputText, ItemNumber, Repeat, Segment, Segments, Text
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program import pieces as p
from pastalang.program import types as t
from pastalang.program.pieces import For, If
from pastalang.program.visit import reached, with_parts
from pastalang.values.describe import Style, prompt_text
from pastalang.values.json import write_json

_STRING: Final = re.compile(r'("(?:[^"\\]|\\.)*")(?=\s*:)|"(?:[^"\\]|\\.)*"')
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|[A-Z]|\d+|[^\W_]+")


def in_words(key: str) -> str:
    """The key as a label: `roast_type`, `roastType` and `RoastType` are Roast type. One with spaces stays as it is."""
    if not re.fullmatch(r"[\w-]+", key):
        return key[:1].upper() + key[1:]
    words = [word if word.isupper() and len(word) > 1 else word.lower() for word in _WORD.findall(key)]
    found = " ".join(words)
    return found[:1].upper() + found[1:] or key


def with_keys_in_words(plan: Plan) -> Plan:
    """The plan that runs with weights that read keys as words. It is `plan` itself if that changes nothing."""
    words = _Words.of(plan)
    if not words.keys:
        return plan
    return replace(plan, branches=tuple(replace(one, segments=words.all(one.segments)) for one in plan.branches))


@dataclass(frozen=True, slots=True)
class _Words:
    """What is fed in the place of each key, as JSON, and of the schema in each of its styles."""

    keys: Mapping[str, str]
    schemas: Mapping[str, str]

    @staticmethod
    def of(plan: Plan) -> _Words:
        """A key that the model writes itself stays as it is, and so does one whose words are those of another."""
        if plan.output is None:
            return _Words({}, {})
        types = dict(plan.types)
        words = {key: in_words(key) for key in _keys_in(plan.output, types)}
        written = {
            key for _, _, hole in walk_plan(plan) if isinstance(hole, Hole) for key in _keys_in(hole.type, types)
        }
        times = Counter(words.values())
        changed = {
            key: found
            for key, found in words.items()
            if found not in words and times[found] == 1 and key not in written
        }
        keys = {write_json(key): write_json(found) for key, found in changed.items()}
        if not keys:
            return _Words({}, {})
        output, renamed = _undescribed(plan.output), _renamed(_undescribed(plan.output), changed)
        named = {name: _renamed(type, changed) for name, type in types.items()}
        schemas = {prompt_text(output, types, style=style): prompt_text(renamed, named, style=style) for style in Style}
        return _Words(keys, schemas)

    def all(self, segments: Segments) -> Segments:
        return tuple(self._one(segment) for segment in segments)

    def _one(self, segment: Segment) -> Segment:
        match segment:
            case Text():
                return self._text(segment)
            case InputText(block=For() | If() as block):
                return replace(segment, block=self._block(block))
            case Choose(arms=arms):
                return replace(segment, arms=tuple(map(self._arm, arms)))
            case Repeat():
                first, between = self._parts(segment.first), self._parts(segment.between)
                return replace(segment, first=first, between=between, body=self.all(segment.body))
            case _:
                return segment

    def _parts(self, parts: Sequence[Text | ItemNumber]) -> tuple[Text | ItemNumber, ...]:
        return tuple(self._text(one) if isinstance(one, Text) else one for one in parts)

    def _text(self, text: Text) -> Text:
        fed = self._fed(text.text)
        return text if fed == text.text else replace(text, fed=fed)

    def _block(self, block: For | If) -> For | If:
        found = replace(block, body=self._pieces(block.body))
        return found if isinstance(found, For) else replace(found, otherwise=self._pieces(found.otherwise))

    def _pieces(self, pieces: Sequence[p.Piece]) -> tuple[p.Piece, ...]:
        return tuple(
            p.Text(self._fed(one.text)) if isinstance(one, p.Text)
            else self._block(one) if isinstance(one, For | If) else one
            for one in pieces
        )  # fmt: skip

    def _arm(self, arm: Arm) -> Arm:
        fed = self._fed(arm.lead)
        return replace(arm, segments=self.all(arm.segments), fed=None if fed == arm.lead else fed)

    def _fed(self, text: str) -> str:
        for schema, words in self.schemas.items():
            text = text.replace(schema, words)
        return _STRING.sub(lambda found: self.keys.get(found[1], found[0]), text)


def _keys_in(type: t.Type, types: Mapping[str, t.Type]) -> Iterator[str]:
    return (field.key for one in reached(type, types) if isinstance(one, t.Object) for field in one.fields)


def _undescribed(type: t.Type) -> t.Type:
    """The description of the whole stands before the schema, in words that do not change."""
    return replace(type, description=None) if isinstance(type, t.Object) else type


def _renamed(type: t.Type, words: Mapping[str, str]) -> t.Type:
    found = with_parts(type, lambda _, part: _renamed(part, words))
    if not isinstance(found, t.Object):
        return found
    return replace(found, fields=tuple(replace(one, key=words.get(one.key, one.key)) for one in found.fields))
