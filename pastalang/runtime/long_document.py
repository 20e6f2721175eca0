"""A document that is read in windows: its runs, and the extraction that their outcomes become.

text ── windows ── inputs of each ── runs ── outcomes ── merge ── validators of the type ── Extraction
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import fsum
from typing import Any, Final, TypeAlias

from pastalang.failures import PastaError
from pastalang.plan.plan import Plan
from pastalang.program import types as t
from pastalang.program.visit import arms_of, parts_of_value, reached
from pastalang.runtime.answer_parts import FieldResult, Stretch, Truncation
from pastalang.runtime.errors import BadInputs, OutOfMemory, Problem, TooLong
from pastalang.runtime.inputs import bind_inputs
from pastalang.runtime.quotations import SourceSpan, SourceText, spans_of
from pastalang.runtime.repair.validation import CheckedValue, Objection, judge, validator_of
from pastalang.runtime.result import Answer, Extraction, Invalid, Result, Usage, Window
from pastalang.runtime.trace import ROOT_LANE, Trace
from pastalang.runtime.windows import MergeRule, TokenCounter, Windowing, windows_of
from pastalang.values.fit import find_mismatches, to_plain, to_python
from pastalang.values.json import JsonValue, Node, Place, laid_out_json, places_of, write_json
from pastalang.values.paths import WHOLE, is_mark, path_text, steps_of
from pastalang.values.quotes import occurrences_of

TEXT: Final = "text"  # the input of the program of a type
Outcome: TypeAlias = Result[Any] | PastaError  # of the run of one window
WindowCall: TypeAlias = "tuple[LongDocument, Iterator[Mapping[str, Any]], dict[str, Any]]"
_STRETCH: Final = 64  # characters of a text; quotations that touch the same are compared
_SMALLER: Final = (TooLong, OutOfMemory)  # errors that a smaller window may avoid


def extraction_of(document: LongDocument, runs: Callable[[], Iterable[Outcome]]) -> Extraction[Any]:
    """The extraction of a call: runs its windows, and raises the error of the first that has one, or `Invalid` for what
    all say."""
    for outcome in runs():
        _raise_error_of(document.add(outcome).found)
    return _raise_error_of(document.extraction())


async def aextraction_of(document: LongDocument, outcomes: AsyncGenerator[Outcome]) -> Extraction[Any]:
    """`extraction_of` for asyncio."""
    async with aclosing(outcomes):
        async for outcome in outcomes:
            _raise_error_of(document.add(outcome).found)
    return _raise_error_of(await asyncio.to_thread(document.extraction))


def _raise_error_of(found: Extraction[Any]) -> Extraction[Any]:
    if found.error is not None:
        raise found.error
    return found


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """How documents are read in windows: the plan of every window, and the input that is cut into them.

    `type` validates values, as `model=` of a run does; None leaves them as the plan types them. Raises `BadInputs` for
    an answer that cannot be merged.
    """

    windowing: Windowing
    plan: Plan
    input: str
    type: Any
    keep_invalid: bool
    counter: TokenCounter
    passes: Callable[[], int]  # of the engine so far

    def __post_init__(self) -> None:
        if self.plan.output is None:
            raise BadInputs(f"`{self.plan.template}` writes running text; only JSON answers of windows can be merged")

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the run of a window. What validators object to in a part may be right in the whole."""
        return {**given, "model": self.type} | ({} if self.type is None else {"keep_invalid": True})

    def call(self, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> WindowCall:
        """The document of a call of `extract`, with the inputs and the options of the runs of its windows.

        Raises `BadInputs` for wrong inputs before their text is cut.
        """
        bind_inputs(self.plan, inputs)
        document = self.document(inputs[self.input])
        return document, ({**inputs, self.input: part} for part in document.parts()), self.options(options)

    def document(self, text: str, *, id: str | int | None = None) -> LongDocument:
        return LongDocument(self, text, id, begun=time.perf_counter(), passes=self.passes())


@dataclass(slots=True)
class LongDocument:
    """A document and its windows so far, in the order of the text."""

    plan: WindowPlan
    text: str
    id: str | int | None
    begun: float
    passes: int  # of the engine before it
    windows: list[Window] = field(default_factory=list)
    _places: list[tuple[int, int]] = field(default_factory=list)

    def parts(self) -> Iterator[str]:
        """The text of each window, cut as it is needed."""
        for start, end in windows_of(self.text, self.plan.counter, self.plan.windowing):
            self._places.append((start, end))
            yield self.text[start:end]

    def add(self, outcome: Outcome) -> Window:
        """The outcome of the next window."""
        start, end = self._places[len(self.windows)]
        found = Extraction.of(_placed(outcome, start, end) if isinstance(outcome, PastaError) else outcome)
        self.windows.append(Window(start, end, found))
        return self.windows[-1]

    def extraction(self) -> Extraction[Any]:
        """What all windows say. An error of one of them is that of the document."""
        windows = tuple(self.windows)
        error = next((one.found.error for one in windows if one.found.error is not None), None)
        if error is not None:
            return Extraction(None, None, error, self.id, windows)
        plan, output = self.plan.plan, self.plan.plan.output
        assert output is not None
        types = dict(plan.types)
        readings = [
            Reading.of(answer, one, self.text, input=self.plan.input, type=output, types=types)
            for one in windows
            for answer in one.found.result.answers
        ]
        merged = merge(readings, output, types, self.plan.windowing.merge)
        result, problems = self._result(merged)
        if problems and not self.plan.keep_invalid:
            return Extraction(None, result, Invalid(problems, plan=plan, result=result), self.id, windows)
        return Extraction(result.value, result, None, self.id, windows)

    def _result(self, merged: MergedAnswer) -> tuple[Result[Any], tuple[Problem, ...]]:
        output, types = self.plan.plan.output, dict(self.plan.plan.types)
        assert output is not None
        validator = None if self.plan.type is None else validator_of(self.plan.type)
        mismatches = find_mismatches(output, merged.value, types)
        value, objections = judge(CheckedValue(merged.value, mismatches), validator)
        if validator is None or objections:
            value = to_plain(merged.value) if mismatches else to_python(output, merged.value, types)
        tree = places_of(merged.text)
        problems = tuple(
            Problem(path_text(one.path), one.reason, merged.text[slice(*tree.at(one.path).place)], 1)
            for one in objections
        )
        sources = {path: text for one in self.windows for path, text in one.found.sources.items()}
        answer = Answer(
            value, merged.text, tuple(_objected(merged.fields, tree, objections)),
            (Stretch(merged.text, ROOT_LANE, True),), None, merged.value, {**sources, self.plan.input: self.text},
            merged.truncations,
        )  # fmt: skip
        passes = self.plan.passes() - self.passes
        usage = _usage([one.found.usage for one in self.windows], passes, time.perf_counter() - self.begun)
        return Result((answer,), False, usage, Trace(usage.forward_passes, (), (), (), ()), problems), problems


def _objected(fields: Iterable[FieldResult], tree: Node, objections: Iterable[Objection]) -> Iterator[FieldResult]:
    """The fields, with what is objected to in or around them as their problem."""
    reasons: dict[Place, str] = {}
    for one in objections:
        around = [tree.at(one.path[:length]) for length in range(len(one.path) + 1)]
        parts = [part for node in one.nodes(tree) for part in node.all()]
        reasons.update(dict.fromkeys((node.place for node in (*around, *parts)), one.reason))
    for each in fields:
        yield replace(each, problem=reasons.get(Place(*each.span), each.problem))


def _placed(error: PastaError, start: int, end: int) -> PastaError:
    """The error with the window that it is about, and what may help."""
    if not isinstance(error, _SMALLER):
        return error
    return type(error)(f"{error.reason} (characters {start:,} to {end:,}): choose a smaller `window`")


def _usage(parts: Sequence[Usage], passes: int, seconds: float) -> Usage:
    """The sums over all windows, which share passes. Of cells, those of the largest."""
    path = max(one.critical_path for one in parts)
    drawn = sum(one.output_tokens for one in parts)
    return Usage(
        input_tokens=sum(one.input_tokens for one in parts),
        reused_tokens=sum(one.reused_tokens for one in parts),
        output_tokens=drawn,
        forced_tokens=sum(one.forced_tokens for one in parts),
        forward_passes=passes,
        critical_path=path,
        theoretical_speedup=fsum(one.theoretical_speedup * one.critical_path for one in parts) / max(path, 1),
        peak_cells=max(one.peak_cells for one in parts),
        attended_tokens=fsum(one.attended_tokens * one.output_tokens for one in parts) / max(drawn, 1),
        seconds=seconds,
        repair_passes=sum(one.repair_passes for one in parts),
        repair_tokens=sum(one.repair_tokens for one in parts),
        attempts=sum(one.attempts for one in parts),
        given_up=sum(one.given_up for one in parts),
        drafted_tokens=sum(one.drafted_tokens for one in parts),
        confirmed_tokens=sum(one.confirmed_tokens for one in parts),
        mode=parts[0].mode,
        requests=sum(one.requests for one in parts),
    )


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
    def of(answer: Answer[Any], window: Window, whole: str, *, input: str, type: t.Type, types: Types) -> Reading:
        """`whole` is the text of `input`, which the window is a part of. An answer without fields, as chats give it,
        quotes what stands in the window. Validators have judged the window alone: why is left out."""
        text, refused = whole[window.start : window.end], {one.reason for one in window.found.result.problems}
        paths = {path_text(path) or WHOLE: path for path in _paths(answer.exact)}
        fields = tuple(
            (  # a key may be named as the whole answer is
                () if one.span[0] == 0 else paths[one.where],
                replace(one, problem=None) if one.problem in refused else one,
            )
            for one in answer.fields
            if one.where in paths
        )
        spans = {(*path, *span.within): span for path, one in fields for span in one.sources}
        if not answer.fields:
            quoted = spans_of(type, answer.exact, types, {input: (SourceText(input, text),)})
            spans = {span.within: span for span in quoted}
        spans |= dict(_spread(type, answer.exact, (), types, spans, {input: text, **answer.sources}))
        moved = {path: _moved(span, window.start) if span.path == input else span for path, span in spans.items()}
        return Reading(window.start, window.end, answer.exact, fields, moved, answer.truncations)

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
        self._known: dict[_Identity, int] = {}
        self._stretches: defaultdict[tuple[object, int], list[tuple[_Identity, int]]] = defaultdict(list)

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
                self.found[self._known[identity]].append(item)
            elif not (first.is_whole and identity.again):
                left.append((identity, item))
        earlier = len(self.found)
        for identity, item in left:
            near = [each for stretch in self._near(identity) for each in stretch]
            free = [(other, group) for other, group in near if group < earlier and group not in taken]
            shared, nearest = max(((other.shared(identity), -group) for other, group in free), default=(0, 0))
            group = -nearest if shared else len(self.found)
            if not shared:
                self.found.append([])
            taken.add(group)
            self.found[group].append(item)
            self._known[identity] = group
            for stretch in self._near(identity):
                stretch.append((identity, group))

    def _near(self, identity: _Identity) -> Iterator[list[tuple[_Identity, int]]]:
        """Those whose quotations may overlap that of an item, with their groups, by the stretches that it touches."""
        start, end = identity.place or (0, 0)
        for number in range(start // _STRETCH, -(-end // _STRETCH)):
            yield self._stretches[identity.known_by, number]


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
    parts: defaultdict[Reading, list[_Origin]] = defaultdict(list)
    for origin in origins:
        parts[origin.found.reading].append(origin)
    for reading in windows:
        for cut in reading.truncations:
            for origin in parts[reading]:
                found = origin.found
                inside = [place for place in _paths(found.value) if not origin.is_list or not place]
                place = next((one for one in inside if (path_text((*found.path, *one)) or WHOLE) == cut.where), None)
                if place is not None:
                    yield replace(cut, where=path_text((*origin.path, *place)) or WHOLE)
                    break
