"""Moves white space from the end of a literal into the value after it, where the tokenizer joins the two.

Most tokenizers write a space together with the word after it: ` "` and ` Sony` are one token each. A literal that ends
in a space would then end in a token that the model has hardly ever seen there. So the literal is fed without the space,
and the segment after the literal begins with it. The text of the answer does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from pastalang.plan.branches import (
    Arm,
    BranchId,
    Choose,
    Fork,
    Form,
    Hole,
    ItemNumber,
    Join,
    Place,
    Repeat,
    Segment,
    Segments,
    Text,
)
from pastalang.plan.plan import Plan
from pastalang.plan.structure import placed_in
from pastalang.program import types as t
from pastalang.program.visit import arms_of
from pastalang.values.json import spell
from pastalang.values.lengths import closed_texts, first_characters, is_finite, max_length

_AMPLE = 8  # tokens: a limit from which on an open type has room for one more
_CONTEXT = 64  # characters on either side of a border that are tokenized
_MAX_CONTINUATIONS = 64  # that are tried after a literal
_MAX_SPELLINGS = 1_000  # of a closed list
_FIRST_WORDS = frozenset({"a", "The", "Sony", "x9", "12", "("})
_OPENINGS = {
    '"': ('"a', '"The', '"12', '"'),
    "{": ('{"a', "{}"),
    "[": ('["a', "[1", '[{"', "[]"),
    "-": ("-1",),
    "t": ("true",),
    "f": ("false",),
    "n": ("null",),
}
_FORCED_ALONE = frozenset('"{[')  # openings that are forced as a token of their own
_ANY_JSON = frozenset('"{[-7tfn')


class Borders(Protocol):
    """What has to be known of a tokenizer: an `Encoder` knows it."""

    def text(self, text: str) -> tuple[int, ...]:
        """The tokens of a text."""
        ...

    def crosses(self, before: str, after: str) -> bool:
        """Whether some token of the two texts written together spans the border between them."""
        ...


def move_whitespace(plan: Plan, encoder: Borders) -> Plan:
    """The plan that runs with this tokenizer. It is `plan` itself if no white space has to move."""
    mover = _WhitespaceMover(plan, encoder)
    for branch in plan.branches:
        mover.segments[branch.id] = mover.all(mover.segments[branch.id], ends_in_text=True)
    if all(mover.segments[branch.id] == branch.segments for branch in plan.branches):
        return plan
    branches = tuple(replace(branch, segments=mover.segments[branch.id]) for branch in plan.branches)
    return replace(plan, branches=branches)


class _WhitespaceMover:
    """Moves white space branch by branch. `segments` holds the result so far; parents come before their children."""

    def __init__(self, plan: Plan, encoder: Borders) -> None:
        self.segments: dict[BranchId, Segments] = {branch.id: branch.segments for branch in plan.branches}
        self._types: Mapping[str, t.Type] = dict(plan.types)
        self._encoder = encoder
        self._placed = placed_in(branch.segments for branch in plan.branches)

    def all(self, segments: Segments, *, ends_in_text: bool) -> Segments:
        """The segments with white space moved. `ends_in_text`: after them, the branch is fed text or nothing."""
        done = list(segments)
        for index, segment in enumerate(segments):
            following = done[index + 1 :]
            segment = done[index]
            match segment:
                case Text(shown=True):
                    moved = self._move_out(segment.fed_text, following, ends_in_text=ends_in_text)
                    if moved is not None:
                        space, done[index + 1] = moved
                        done[index] = _without_space(segment, space)
                case Choose():
                    done[index] = self._choose(segment, _is_text(following, ends_in_text))
                case Repeat():
                    repeat = done[index] = self._repeat(segment)
                    at_end = self._move_out_of_list(repeat, following, ends_in_text=ends_in_text)
                    if at_end is not None:
                        done[index], done[index + 1] = at_end
                case _:
                    continue
        return tuple(done)

    # ── where white space moves out ──────────────────────────────────────────────────────────────────────

    def _move_out(
        self, literal: str, following: Sequence[Segment], *, ends_in_text: bool
    ) -> tuple[str, Segment] | None:
        """The white space that moves out of the literal, and the next segment with that space moved in."""
        if not following or not _ends_in_space(literal):
            return None
        if isinstance(following[0], Fork) and not _is_text(following[1:], ends_in_text):
            return None  # whatever this branch samples next would miss the white space
        return self._move_in(following[0], literal)

    def _choose(self, choose: Choose, is_text_after: bool) -> Choose:
        arms: list[Arm] = []
        for arm in choose.arms:
            segments = self.all(arm.segments, ends_in_text=is_text_after)
            moved = self._move_out(arm.fed_text, segments, ends_in_text=is_text_after)
            if moved is not None:
                space, first = moved
                arm, segments = _without_space(arm, space), (first, *segments[1:])
            arms.append(replace(arm, segments=segments))
        found = replace(choose, arms=tuple(arms))
        return found if self._arms_stay_distinct(choose, found) else choose

    def _repeat(self, repeat: Repeat) -> Repeat:
        """After an item the model may have to decide whether there is another one, so no text follows the body."""
        body = self.all(repeat.body, ends_in_text=False)
        found = replace(repeat, body=body)
        endings = [_last_text(one) for one in (repeat.first, repeat.between)]
        if repeat.over is not None or not body or None in endings:
            return found
        first, between = (text or "" for text in endings)
        moved = self._move_out(first, body, ends_in_text=False)
        if moved is None or not _ends_in(between, moved[0]):
            return found
        space, segment = moved
        first_parts, between_parts = (_shortened(parts, space) for parts in (repeat.first, repeat.between))
        shortened = replace(found, first=first_parts, between=between_parts, body=(segment, *body[1:]))
        return shortened if self._stop_stays_distinct(repeat, shortened) else found

    def _move_out_of_list(
        self, repeat: Repeat, following: Sequence[Segment], *, ends_in_text: bool
    ) -> tuple[Repeat, Segment] | None:
        """The text that ends a list may itself be the literal before a hole."""
        if repeat.stop is None:
            return None
        moved = self._move_out(repeat.stop, following, ends_in_text=ends_in_text)
        if moved is None or not (repeat.empty is None or _ends_in(repeat.empty, moved[0])):
            return None
        shortened = replace(repeat, last_space=moved[0])
        return (shortened, moved[1]) if self._stop_stays_distinct(repeat, shortened) else None

    # ── where white space moves in ───────────────────────────────────────────────────────────────────────

    def _move_in(self, segment: Segment, literal: str) -> tuple[str, Segment] | None:
        match segment:
            case Hole() if segment.auto is None:
                continuations = _beginnings(segment.type, segment.form, self._types)
                space = self._movable_space(literal, continuations)
                if not space or not _keeps_values(segment, space, self._types, self._encoder.text):
                    return None
                return space, replace(segment, space=space)
            case Text(shown=True, text=text) if text.strip(" "):
                space = self._movable_space(literal, (segment.fed_text,))
                return (space, _with_space(segment, space)) if space else None
            case Fork(branch=id) if id not in self._placed and self.segments[id]:
                first, *rest = self.segments[id]
                moved = self._move_in(first, literal)
                if moved is None:
                    return None
                self.segments[id] = (moved[1], *rest)
                return moved[0], segment
            case Choose():
                return self._move_into_choice(segment, literal)
            case Repeat():
                return self._move_into_list(segment, literal)
            case _:
                return None

    def _move_into_choice(self, choose: Choose, literal: str) -> tuple[str, Segment] | None:
        space = self._movable_space(literal, [arm.fed_text for arm in choose.arms])
        found = replace(choose, arms=tuple(_with_space(arm, space) for arm in choose.arms), space=space)
        return (space, found) if space and self._arms_stay_distinct(choose, found) else None

    def _arms_stay_distinct(self, before: Choose, after: Choose) -> bool:
        old, new = ([self._encoder.text(arm.fed_text) for arm in one.arms] for one in (before, after))
        return _stay_distinct(old, new)

    def _move_into_list(self, repeat: Repeat, literal: str) -> tuple[str, Segment] | None:
        first = repeat.first[0] if repeat.first else None
        if repeat.over is not None or not isinstance(first, Text) or (repeat.minimum == 0 and repeat.empty is None):
            return None
        continuations = (first.fed_text, *([repeat.empty] if repeat.minimum == 0 and repeat.empty else []))
        space = self._movable_space(literal, continuations)
        if not space:
            return None
        spaced = replace(repeat, first=(_with_space(first, space), *repeat.first[1:]), space=space)
        return (space, spaced) if self._stop_stays_distinct(repeat, spaced) else None

    def _stop_stays_distinct(self, before: Repeat, after: Repeat) -> bool:
        """Whether the tokens still distinguish another item from the end of the list."""
        for first in (True, False):
            old, new = ([self._continuation(one, first, stops) for stops in (False, True)] for one in (before, after))
            if not _stay_distinct(old, new):
                return False
        return True

    def _continuation(self, repeat: Repeat, first: bool, stops: bool) -> tuple[int, ...]:
        if stops:
            return self._encoder.text(repeat.fed_end(is_empty=first) or "")
        parts = repeat.first if first else repeat.between
        texts = ("1" if isinstance(part, ItemNumber) else part.fed_text for part in parts)
        return tuple(token for text in texts for token in self._encoder.text(text))

    def _movable_space(self, literal: str, continuations: Sequence[str]) -> str:
        """The white space at the end of the literal that moves.

        It is "" if no token crosses the border, or if moving never gives the tokens of the whole text. Of several
        lengths, the one that gives these tokens most often is taken; the shortest of them if there is a tie.
        """
        context = literal[-_CONTEXT:]
        joined = [
            continuation
            for continuation in continuations[:_MAX_CONTINUATIONS]
            if continuation and self._encoder.crosses(context, continuation[:_CONTEXT])
        ]
        if not joined:
            return ""
        spaces = len(literal) - len(literal.rstrip(" "))
        lengths = range(1, min(spaces, len(context) - 1) + 1)
        agreements = {
            length: sum(self._is_tokenized_alike(context, length, continuation[:_CONTEXT]) for continuation in joined)
            for length in lengths
        }
        best = max(lengths, key=lambda length: (agreements[length], -length))
        return literal[-best:] if agreements[best] else ""

    def _is_tokenized_alike(self, context: str, length: int, continuation: str) -> bool:
        encode = self._encoder.text
        return encode(context[:-length]) + encode(context[-length:] + continuation) == encode(context + continuation)


def _is_text(segments: Sequence[Segment], at_end: bool) -> bool:
    """Whether the branch is next fed text or nothing."""
    for segment in segments:
        match segment:
            case Join() | Place():
                continue
            case Text(text=text):
                return bool(text)
            case _:
                return False
    return at_end


def _ends_in_space(literal: str) -> bool:
    return literal.endswith(" ") and bool(literal.strip(" "))


def _ends_in(literal: str, space: str) -> bool:
    return _ends_in_space(literal) and literal.endswith(space)


F = TypeVar("F", Text, Arm)


def _with_space(literal: F, space: str) -> F:
    return replace(literal, fed=space + literal.fed_text)


def _without_space(literal: F, space: str) -> F:
    return replace(literal, fed=literal.fed_text.removesuffix(space))


def _last_text(parts: Sequence[Text | ItemNumber]) -> str | None:
    last = parts[-1] if parts else None
    return last.fed_text if isinstance(last, Text) else None


def _shortened(parts: tuple[Text | ItemNumber, ...], space: str) -> tuple[Text | ItemNumber, ...]:
    last = parts[-1]
    assert isinstance(last, Text)
    return (*parts[:-1], _without_space(last, space))


def _stay_distinct(before: Sequence[tuple[int, ...]], after: Sequence[tuple[int, ...]]) -> bool:
    """Whether no token sequence has become a prefix of another one."""
    return not any(
        after[one] == after[other][: len(after[one])] and before[one] != before[other][: len(before[one])]
        for one in range(len(after))
        for other in range(len(after))
        if one != other
    )


def _beginnings(type: t.Type, form: Form, types: Mapping[str, t.Type]) -> tuple[str, ...]:
    """All spellings of a closed list, up to a limit; typical beginnings of every kind of value of an open type."""
    quoted = form is Form.JSON
    found: list[str] = []
    for arm in arms_of(type, types):
        if isinstance(arm, t.Literal):
            found.append(spell(arm.value, quoted=quoted))
            continue
        first = first_characters(arm, types, quoted=quoted)
        if first is None:
            first = _ANY_JSON if quoted else _FIRST_WORDS
        found += [text for one in sorted(first) for text in _OPENINGS.get(one, (one,))]
    return tuple(dict.fromkeys(found[:_MAX_SPELLINGS]))


def _keeps_values(hole: Hole, space: str, types: Mapping[str, t.Type], encode: Callable[[str], Sequence[int]]) -> bool:
    """Whether every value that fits into the hole's limit still fits with the space before it."""
    quoted = hole.form is Form.JSON
    longest = max_length(hole.type, types, quoted=quoted)
    if hole.max_tokens >= _AMPLE and not is_finite(hole.type, types):
        return True
    if longest is not None and hole.max_tokens >= longest + len(space):
        return True
    if is_finite(hole.type, types):
        return all(
            len(encode(space + text)) <= hole.max_tokens for text in closed_texts(hole.type, types, quoted=quoted)
        )
    first = first_characters(hole.type, types, quoted=quoted)
    if first is None or any(len(encode(space + one)) != 1 for one in first):
        return False
    return first <= _FORCED_ALONE or (longest is not None and hole.max_tokens >= longest)
