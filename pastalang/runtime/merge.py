"""Merges what a model read in the windows of a document into one value, with the place of every part.

    objects   key by key
    lists     the items of all windows, in the order of the windows. Items of two windows are the same if their first
              quotations stand at the same place in the document or overlap; items that quote nothing, if they are
              equal. Each window counts an item as often as it has it, and the merged list as often as the window that
              has it most often. An item that is nothing but a quotation counts once for each place in the text
    others    one value. Null says that a window does not say; among the others, the rule decides

Windows are put in the order of the text first, and equal ones count once. So neither their order nor doubles matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

from pastalang.program import types as t
from pastalang.program.visit import arms_of, parts_of_value, reached
from pastalang.runtime.answer_parts import FieldResult, Truncation
from pastalang.runtime.quotations import SourceSpan, SourceText, spans_of
from pastalang.runtime.result import Answer
from pastalang.runtime.windows import MergeRule
from pastalang.values.fit import find_mismatches, to_plain
from pastalang.values.json import JsonValue, Node, laid_out_json, places_of, write_json
from pastalang.values.paths import WHOLE, is_mark, path_text, steps_of
from pastalang.values.quotes import occurrences_of

Path: TypeAlias = tuple[str | int, ...]
Types: TypeAlias = Mapping[str, t.Type]


@dataclass(frozen=True, eq=False)
class Reading:
    """What the model read in a window. `spans` are the places of quotations in the document, by their paths."""

    start: int
    end: int
    value: JsonValue
    fields: tuple[tuple[Path, FieldResult], ...]
    spans: Mapping[Path, SourceSpan]
    truncations: tuple[Truncation, ...] = ()

    @staticmethod
    def of(answer: Answer[Any], start: int, text: str, *, input: str, type: t.Type, types: Types) -> Reading:
        """`text` is the window, and `input` the text that it is a part of. An answer without fields, as chats give it,
        quotes what stands in the window."""
        paths = {path_text(path) or WHOLE: path for path in _paths(answer.exact)}
        fields = tuple((paths[one.where], one) for one in answer.fields if one.where in paths)
        spans = {(*path, *span.within): span for path, one in fields for span in one.sources}
        if not answer.fields:
            quoted = spans_of(type, answer.exact, types, {input: (SourceText(input, text),)})
            spans = {span.within: span for span in quoted}
        spans |= dict(_spread(type, answer.exact, (), types, spans, {input: text, **answer.sources}))
        moved = {path: _moved(span, start) if span.path == input else span for path, span in spans.items()}
        return Reading(start, start + len(text), answer.exact, fields, moved, answer.truncations)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Readings with the same key are equal, and are put in its order."""
        return self.start, self.end, write_json(self.value), tuple(one.confidence for _, one in self.fields)

    def inside(self, path: Path) -> list[tuple[Path, FieldResult]]:
        """The fields that make up the value at a path."""
        return [(place, one) for place, one in self.fields if place[: len(path)] == path]

    def around(self, path: Path) -> tuple[Path, FieldResult] | None:
        """The field that the value at a path is a part of."""
        found = [(place, one) for place, one in self.fields if path[: len(place)] == place]
        return max(found, key=lambda pair: len(pair[0]), default=None)

    def confidence(self, path: Path) -> float:
        around = self.around(path)
        fields = self.inside(path) or ([] if around is None else [around])
        return min((one.confidence for _, one in fields), default=1.0)

    def quotation(self, path: Path) -> tuple[Path, SourceSpan] | None:
        """The first quotation of the value at a path."""
        return next(((place, span) for place, span in self.spans.items() if place[: len(path)] == path), None)


def _moved(span: SourceSpan, offset: int) -> SourceSpan:
    return replace(span, start=span.start + offset, end=span.end + offset)


def _paths(value: JsonValue, path: Path = ()) -> Iterator[Path]:
    yield path
    parts: Iterable[tuple[str | int, JsonValue]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for step, part in parts:
        yield from _paths(part, (*path, step))


def _spread(
    type: t.Type, value: JsonValue, path: Path, types: Types, spans: Mapping[Path, SourceSpan],
    texts: Mapping[str, str],
) -> Iterator[tuple[Path, SourceSpan]]:  # fmt: skip
    """Places for the items of a list whose first quotations are the same: the second has its second place, and so on.

    The answer says of all of them where the quotation stands first.
    """
    arm = arm_of(type, value, types)
    if isinstance(arm, t.Array) and isinstance(value, list):
        units = {one.source: one.at for one in reached(arm.item, types) if isinstance(one, t.Verbatim)}
        repeats: Counter[SourceSpan] = Counter()
        for number in range(len(value)):
            item = (*path, number)
            head = next((place for place in spans if place[: len(item)] == item), None)
            if head is None:
                continue
            first = replace(spans[head], within=())
            again, repeats[first] = repeats[first], repeats[first] + 1
            if again and first.name in units:
                text = texts[first.path]
                starts = list(occurrences_of(text[first.start : first.end], text, units[first.name]))
                at = starts.index(first.start) + again if first.start in starts else len(starts)
                if at < len(starts):
                    yield head, _moved(spans[head], starts[at] - first.start)
    for step, inner, part in () if arm is None else parts_of_value(arm, value):
        yield from _spread(inner, part, (*path, step), types, spans, texts)


def arm_of(type: t.Type, value: JsonValue, types: Types) -> t.Type | None:
    """The list or object type that a value has; None for a value that counts as a whole."""
    arms = [one for one in arms_of(type, types) if isinstance(one, t.Array | t.Object | t.Map)]
    fitting = [one for one in arms if isinstance(value, list) == isinstance(one, t.Array)]
    if not isinstance(value, list | dict) or len(fitting) <= 1:
        return fitting[0] if fitting and isinstance(value, list | dict) else None
    return next((one for one in fitting if not find_mismatches(one, value, types)), None)


# ── values ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Found:
    """A part of the value of a window."""

    reading: Reading
    path: Path
    value: JsonValue

    @property
    def confidence(self) -> float:
        return self.reading.confidence(self.path)

    def part(self, step: str | int) -> _Found:
        assert isinstance(self.value, dict | list)
        return _Found(self.reading, (*self.path, step), self.value[step])  # type: ignore[index]


@dataclass(frozen=True, slots=True)
class _Origin:
    """`path` of the merged value is from there. A list that is merged of several has several origins."""

    path: Path
    found: _Found
    is_list: bool = False

    def below(self, step: str | int) -> _Origin:
        return _Origin((step, *self.path), self.found, self.is_list)


_Merged: TypeAlias = tuple[JsonValue, list[_Origin]]


@dataclass(frozen=True, slots=True)
class MergedAnswer:
    """A value with its text, and its fields at their places in both."""

    value: JsonValue
    text: str
    fields: tuple[FieldResult, ...]
    truncations: tuple[Truncation, ...]


def merge(readings: Iterable[Reading], type: t.Type, types: Types, rule: MergeRule) -> MergedAnswer:
    """The value of a document, of at least one window."""
    windows = list({one.key: one for one in sorted(readings, key=lambda one: one.key)}.values())
    value, origins = _Merger(types, rule).merge(type, [_Found(one, (), one.value) for one in windows])
    text = laid_out_json(value)
    return MergedAnswer(
        value, text, tuple(_fields(value, origins, text, places_of(text))), tuple(_truncations(windows, origins))
    )


@dataclass(frozen=True, slots=True)
class _Merger:
    types: Types
    rule: MergeRule

    def merge(self, type: t.Type, found: Sequence[_Found]) -> _Merged:
        found = [one for one in found if one.value is not None] or found
        arms = {id(one): arm_of(type, one.value, self.types) for one in found}
        arm = arms[id(self._best(found))] if len({*map(id, arms.values())}) > 1 else arms[id(found[0])]
        fitting = [one for one in found if arms[id(one)] is arm]
        if isinstance(arm, t.Object):
            return self._keys({field.key: field.type for field in arm.fields}, fitting)
        if isinstance(arm, t.Map):
            names = dict.fromkeys(key for one in fitting if isinstance(one.value, dict) for key in one.value)
            return self._keys(dict.fromkeys(names, arm.value), fitting)
        if isinstance(arm, t.Array):
            return self._items(arm, fitting)
        best = self._best(fitting)
        return best.value, [_Origin((), best)]

    def _keys(self, keys: Mapping[str, t.Type], found: Sequence[_Found]) -> _Merged:
        value: dict[str, JsonValue] = {}
        origins = [_Origin((), one, is_list=True) for one in found]
        for key, type in keys.items():
            parts = [one.part(key) for one in found if isinstance(one.value, dict) and key in one.value]
            if parts:
                value[key], inner = self.merge(type, parts)
                origins += [one.below(key) for one in inner]
        return value, origins

    def _items(self, array: t.Array, found: Sequence[_Found]) -> _Merged:
        groups = _Groups()
        for one in found:
            groups.add([one.part(number) for number in range(len(one.value) if isinstance(one.value, list) else 0)])
        value: list[JsonValue] = []
        origins = [_Origin((), one, is_list=True) for one in found]
        known: set[str] = set()
        for group in groups.found:
            item_value, inner = self.merge(array.item, group)
            if array.unique and write_json(item_value) in known:
                continue
            known.add(write_json(item_value))
            origins += [one.below(len(value)) for one in inner]
            value.append(item_value)
        return value, origins

    def _best(self, found: Sequence[_Found]) -> _Found:
        """The value that counts; the earlier of two that count as much."""
        match self.rule:
            case "first":
                return found[0]
            case "confidence":
                return max(found, key=lambda one: one.confidence)
            case "agreement":
                votes = Counter(write_json(one.value) for one in found)
                return max(found, key=lambda one: (votes[write_json(one.value)], one.confidence))


@dataclass(frozen=True, slots=True)
class _Identity:
    """What an item is known by: its first quotation, or its value if it quotes nothing.

    `again` counts the items of one window that are known by the same.
    """

    known_by: tuple[object, ...]
    place: tuple[int, int] | None
    is_whole: bool  # whether it is a quotation and nothing else
    again: int = 0

    @staticmethod
    def of(item: _Found) -> _Identity:
        head = item.reading.quotation(item.path)
        if head is None:
            return _Identity((write_json(item.value),), None, False)
        path, span = head
        place = span.start, span.end
        return _Identity((span.path, _pattern(path[len(item.path) :])), place, path == item.path)

    def shared(self, other: _Identity) -> int:
        """The characters that the quotations of two items have in common."""
        if self.place is None or other.place is None or self.known_by != other.known_by:
            return 0
        return max(0, min(self.place[1], other.place[1]) - max(self.place[0], other.place[0]))


class _Groups:
    """The items of windows, those that are the same together. A group has one item of a window at most.

    Items are the same if they are known by the same, or if their quotations overlap: two windows that share a text have
    both read it, and one has quoted more of it than the other.
    """

    def __init__(self) -> None:
        self.found: list[list[_Found]] = []
        self._identities: list[list[_Identity]] = []
        self._known: dict[_Identity, int] = {}

    def add(self, items: Sequence[_Found]) -> None:
        """The items of the next window."""
        counts: Counter[_Identity] = Counter()
        left: list[tuple[_Identity, _Found]] = []
        taken: set[int] = set()
        for item in items:
            first = _Identity.of(item)
            identity, counts[first] = replace(first, again=counts[first]), counts[first] + 1
            if identity in self._known:
                taken.add(self._known[identity])
                self._join(self._known[identity], identity, item)
            elif not (first.is_whole and identity.again):
                left.append((identity, item))
        earlier = range(len(self.found))
        for identity, item in left:
            shared = {group: self._shared(group, identity) for group in earlier if group not in taken}
            group = max(shared, key=shared.__getitem__, default=0)
            if not shared.get(group):
                group = len(self.found)
                self.found.append([])
                self._identities.append([])
            taken.add(group)
            self._join(group, identity, item)

    def _shared(self, group: int, identity: _Identity) -> int:
        return max(one.shared(identity) for one in self._identities[group])

    def _join(self, group: int, identity: _Identity, item: _Found) -> None:
        self.found[group].append(item)
        self._identities[group].append(identity)
        self._known.setdefault(identity, group)


def _pattern(path: Path) -> Path:
    return tuple("[]" if isinstance(step, int) else step for step in path)


# ── fields ───────────────────────────────────────────────────────────────────────────────────────────────────


def _fields(value: JsonValue, origins: Sequence[_Origin], text: str, tree: Node) -> Iterator[FieldResult]:
    """The fields of the merged value in the order of its text."""
    whole: dict[Path, FieldResult] = {}
    joined: dict[Path, list[_Origin]] = defaultdict(list)
    for origin in origins:
        found = origin.found
        inside = [] if origin.is_list else found.reading.inside(found.path)
        for place, one in inside:
            path = (*origin.path, *place[len(found.path) :])
            spans = tuple(
                replace(found.reading.spans[(*place, *span.within)], within=span.within) for span in one.sources
            )
            whole[path] = _field(one, path, text, tree, sources=spans)
        around = None if inside else found.reading.around(found.path)
        if around is not None and (not origin.is_list or len(around[0]) == len(found.path)):
            joined[origin.path[: len(around[0])]].append(origin)
    for path, parts in joined.items():
        whole[path] = _joined(path, parts, _value_at(value, path), text, tree)
    yield from sorted(whole.values(), key=lambda one: one.span)


def _field(one: FieldResult, path: Path, text: str, tree: Node, **changes: Any) -> FieldResult:
    steps = [step for step in steps_of(one.path) if not is_mark(step)]
    items = tuple(int(path[number]) for number, step in enumerate(steps[: len(path)]) if step == "[]")
    place = tree.at(path).place
    return replace(one, items=items, text=text[place.start : place.end], span=(place.start, place.end), **changes)


def _joined(path: Path, parts: Sequence[_Origin], value: JsonValue, text: str, tree: Node) -> FieldResult:
    """The field of a value that is written as a whole, of the parts that windows have written of it."""
    used = [one for one in parts if not one.is_list] or list(parts)
    fields: dict[int, FieldResult] = {}
    spans: list[SourceSpan] = []
    for origin in used:
        found = origin.found
        around = found.reading.around(found.path)
        assert around is not None
        fields[id(around[1])] = around[1]
        if not origin.is_list:
            spans += [
                replace(span, within=(*origin.path, *place[len(found.path) :])[len(path) :])
                for place, span in found.reading.spans.items()
                if place[: len(found.path)] == found.path
            ]
    written = list(fields.values())
    return _field(
        written[0], path, text, tree, value=to_plain(value), sources=tuple(spans),
        tokens=tuple(token for one in written for token in one.tokens),
        log_probabilities=tuple(each for one in written for each in one.log_probabilities),
        averaged=sum(one.averaged for one in written), truncated=any(one.truncated for one in written),
        attempts=max(one.attempts for one in written),
        problem=next((one.problem for one in written if one.problem is not None), None),
        masked_probability=None, options=None,
    )  # fmt: skip


def _value_at(value: Any, path: Path) -> JsonValue:
    for step in path:
        value = value[step]
    found: JsonValue = value
    return found


def _truncations(windows: Sequence[Reading], origins: Sequence[_Origin]) -> Iterator[Truncation]:
    """The cut values that are part of the merged one, and the lists that ended at a limit nobody set."""
    for reading in windows:
        for cut in reading.truncations:
            for origin in origins:
                found = origin.found
                if found.reading is not reading:
                    continue
                inside = [place for place in _paths(found.value) if not origin.is_list or not place]
                place = next((one for one in inside if (path_text((*found.path, *one)) or WHOLE) == cut.where), None)
                if place is not None:
                    yield replace(cut, where=path_text((*origin.path, *place)) or WHOLE)
                    break
