"""Strings inside structures: their masks come from the machines of strings, and their token limits are enforced.

The tokens that stay inside the string, or end with its quote, are the same as for a string alone. Only the texts that
a token may have after the quote depend on the structure; the grammar checks them once for each shape of structure.

    ["ab           inside, and up to the quote: a string machine
    ["ab", "c      after the quote: the few texts that some token has there, checked one by one

A limit counts as it does for a string alone: from the token that opens the string to the token that closes it, both
included. A token that closes one string and opens the next counts for both.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pastalang.program import types as t
from pastalang.program.visit import arms_of, part_at
from pastalang.runtime.constraints.automaton_machine import AutomatonMachine, CountedMachine, has_few_states
from pastalang.runtime.constraints.guide import GuideError, Machine, MachineState, TokenMask
from pastalang.runtime.constraints.json_prefix import JsonPrefix
from pastalang.runtime.constraints.lark import is_small
from pastalang.runtime.constraints.masks import empty_mask, frozen, join_masks, mask_of
from pastalang.runtime.constraints.matcher import Matcher
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.string_machine import StringMachine, StringPosition, spell_json
from pastalang.runtime.constraints.tokens import BoundedCache, Ints, Tokens, ranges
from pastalang.values.describe import counted, describe
from pastalang.values.json import parse_json
from pastalang.values.one_hole import Quoted, may_be_text, opens
from pastalang.values.patterns import patterns_of

StringType: TypeAlias = Quoted | t.Patterned
KeepMask: TypeAlias = Callable[[TokenMask], None]
StringMachines: TypeAlias = StringMachine | AutomatonMachine | CountedMachine

_MAX_KEPT = 512
_SHORT, _MAX_SHARED = 64, 128  # bytes of a prefix that is its own cache key, and masks to cache
_QUOTE = ord('"')
_STRUCTURE = b"]},: "
_STRING, _WORD = re.compile(rb'"(?:[^"\\]|\\.)*"'), re.compile(rb"[-+.0-9a-zA-Z]+")
# The texts that may follow a string, which is an item or the value of a member: an end, or `, ` and the next value.
_BEHIND = re.compile(rb'[]}]|, ?$|, ["[{0-9tfn-]')
# The stages of a number: after a sign, a zero, whole digits, the exponent's letter, its sign, its digits.
_NUMBERS = tuple(
    (b"\x00" + kind, re.compile(begun))
    for kind, begun in (
        (b"-", rb"-"), (b"0", rb"-?0"), (b"1", rb"-?[1-9][0-9]*"),
        (b"e", rb"[-0-9.]+[eE]"), (b"+", rb"[-0-9.]+[eE][+-]"), (b"9", rb"[-0-9.]+[eE][+-]?[0-9]+"),
    )
)  # fmt: skip


# ── positions in the type ────────────────────────────────────────────────────────────────────────────────


def shape(before: bytes) -> bytes:
    """The structure of a text without its strings, numbers and words. Texts with equal shapes have equal masks."""
    return _WORD.sub(b"0", _STRING.sub(b"0", before))


def is_free(string: StringType) -> bool:
    return isinstance(string, t.String) and string.pattern is None and string.format is None


def string_at(type: t.Type, types: Mapping[str, t.Type], prefix: JsonPrefix) -> StringType | None:
    """The type of the open string; None if there are several possible types."""
    here = type_at(type, types, prefix)
    written = [arm for arm in arms_of(here, types) if may_be_text(arm)]
    if len(written) != 1:
        return None
    if isinstance(written[0], t.Anything):
        return t.String()
    return written[0] if isinstance(written[0], StringType) else None


def type_at(type: t.Type, types: Mapping[str, t.Type], prefix: JsonPrefix) -> t.Type | None:
    """The type of the open string or number; None if the types around it are ambiguous."""
    here: t.Type | None = type
    ends = [*(around.begun - 1 for around in prefix.stack[1:]), prefix.string if prefix.word is None else prefix.word]
    for around, end in zip(prefix.stack, ends, strict=False):
        found = [arm for arm in arms_of(here, types) if opens(arm, is_object=around.is_object)]
        if len(found) != 1:
            return None
        if isinstance(found[0], t.Tuple):
            items = parse_json((b"[" + prefix.raw[around.begun : end].rstrip(b", ") + b"]").decode())
            here = found[0].items[len(items)] if isinstance(items, list) and len(items) < len(found[0].items) else None
        else:
            here = part_at(found[0], around.taken[-1] if around.is_object else None)
        if here is None:
            return None
    return here


# ── holes in the same position ───────────────────────────────────────────────────────────────────────────


class SharedMasks:
    """Caches the masks of one guide, so that holes in equivalent positions share them."""

    def __init__(self, type: t.Type, types: Mapping[str, t.Type]) -> None:
        self._type = type
        self._types = types
        self._masks: BoundedCache[bytes, TokenMask] = BoundedCache(_MAX_SHARED)

    def mask(self, prefix: JsonPrefix, ask: Callable[[KeepMask], TokenMask]) -> TokenMask:
        """The mask of the prefix. `ask` computes it and passes it to its argument if it may be cached."""
        key = number_key(self._type, self._types, prefix)
        if key is None:
            if len(prefix.raw) > _SHORT:
                return ask(lambda mask: None)
            key = prefix.raw  # many holes begin with the same text
        found = self._masks.get(key)
        if found is not None:
            return found

        def keep(mask: TokenMask) -> None:
            self._masks[key] = mask

        return ask(keep)


def number_key(type: t.Type, types: Mapping[str, t.Type], prefix: JsonPrefix) -> bytes | None:
    """A key for equal masks inside a number of any value; None if there is no such number."""
    if prefix.word is None or prefix.digits_left() is not None:
        return None
    kind = next((kind for kind, begun in _NUMBERS if begun.fullmatch(prefix.raw, prefix.word)), None)
    arms = [] if kind is None else arms_of(type_at(type, types, prefix), types)
    if kind is None or not arms or not all(isinstance(arm, t.Anything) for arm in arms):
        return None
    return shape(prefix.raw[: prefix.word]) + kind


# ── after the quote ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class QuoteTails:
    """The texts that tokens have after a quote, sorted; `spelled` are their bytes as tokens, if every byte has one.

    `after(nodes)` returns the tokens below these nodes of the trie, and the index of each token's text.
    """

    texts: list[bytes]
    spelled: list[list[int]]
    after: Callable[[Ints], tuple[Ints, Ints]]


def quote_tails(tokens: Tokens) -> QuoteTails:
    """The texts after a quote inside a structure, the same for all types."""
    return tokens.cached("after a quote", lambda: _find_quote_tails(tokens))


def _find_quote_tails(tokens: Tokens) -> QuoteTails:
    trie = tokens.trie
    found: list[tuple[int, int, bytes]] = []
    quotes = trie.nodes_of(_QUOTE)
    for node in quotes[trie.children[quotes] > 0].tolist():
        depth = trie.depth(node)
        for token in trie.below(node)[int(trie.own[node]) :].tolist():
            text = (tokens.text(token) or b"")[depth:]
            if _BEHIND.match(text):
                found.append((node, token, text))
    texts = sorted({text for _, _, text in found})
    numbers = {text: number for number, text in enumerate(texts)}
    owners, ids, rest = np.array(
        [(node, token, numbers[text]) for node, token, text in found], dtype=np.int64
    ).reshape(-1, 3).T  # fmt: skip

    def after(nodes: Ints) -> tuple[Ints, Ints]:
        at = ranges(np.searchsorted(owners, nodes), np.searchsorted(owners, nodes, side="right"))
        return ids[at], rest[at]

    return QuoteTails(texts, _spelled(texts, tokens), after)


def seam_tails(seam: Seam) -> QuoteTails:
    """The texts after the quote of a string that is the whole value: beginnings of the text that follows."""
    return seam.tokens.cached_recent(("after a quote", seam.follow), lambda: _find_seam_tails(seam))


def _find_seam_tails(seam: Seam) -> QuoteTails:
    tokens, trie = seam.tokens, seam.tokens.trie
    texts = [seam.follow[:end] for end in range(1, min(len(seam.follow), tokens.longest) + 1)]

    def after(nodes: Ints) -> tuple[Ints, Ints]:
        ids, rest = [nodes[:0]], [nodes[:0]]
        for number, text in enumerate(texts):
            nodes, _ = trie.children_by(nodes, text[-1])
            ended, _ = trie.ending_at(nodes)
            ids.append(ended)
            rest.append(np.full(len(ended), number))
        return np.concatenate(ids), np.concatenate(rest)

    return QuoteTails(texts, _spelled(texts, tokens), after)


def _spelled(texts: list[bytes], tokens: Tokens) -> list[list[int]]:
    covers = tokens.vocabulary.covers_bytes
    return [[tokens.ids[bytes((byte,))] for byte in text] for text in texts] if covers else []


# ── open strings ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Opened:
    """An open string: the text before it, its machine, and the machine's state after `raw`.

    Only free strings, strings with a limit and strings with a pattern have a machine. A string loses its machine when
    the grammar takes bytes that the machine refuses.
    """

    before: bytes
    place: bytes  # its shape
    string: StringType | None
    machine: Machine | None
    state: Any  # of the machine
    raw: bytes


class OpenStrings:
    """The strings of one type in one vocabulary. `plain` makes the machine of a string that is not free."""

    def __init__(
        self, type: t.Type, types: Mapping[str, t.Type], seam: Seam, plain: Callable[[t.Type], Machine]
    ) -> None:
        self._type = type
        self._types = types
        self._seam = seam
        self._tokens: Tokens = seam.tokens
        self._plain = plain
        self.shared_masks = SharedMasks(type, types)
        self._machines: dict[StringType, Machine | None] = {}
        self._accepted_after: BoundedCache[bytes, NDArray[np.bool_] | None] = BoundedCache(_MAX_KEPT)
        self._masks: BoundedCache[object, tuple[TokenMask, TokenMask]] = BoundedCache(_MAX_KEPT)

    def opened(self, prefix: JsonPrefix, known: Opened | None) -> Opened | None:
        """The open string, continued from `known`; None if no string is open, or a key."""
        if prefix.string is None or (prefix.stack and prefix.stack[-1].wants_key):
            return None
        before = prefix.raw[: prefix.string]
        if known is None or known.before != before or not prefix.raw.startswith(known.raw):
            string = string_at(self._type, self._types, prefix)
            if not prefix.stack and not (isinstance(string, t.String) and is_free(string)):
                string = None  # its token limit is that of the whole value
            machine = None if string is None else self.machine(string)
            start = StringPosition(0, 0) if machine is None else machine.start
            known = Opened(before, shape(before), string, machine, start, before)
        if known.machine is None:
            return known
        state = known.state
        for byte in prefix.raw[len(known.raw) :]:
            following = known.machine.step(state, byte)
            if following is None:  # from here on only the grammar is used
                return replace(known, machine=None, state=state, raw=prefix.raw)
            state = following
        return replace(known, state=state, raw=prefix.raw)

    def closes_alike(self, before: JsonPrefix, after: JsonPrefix, ending: Sequence[int], known: Opened | None) -> bool:
        """Whether an ending of `before` is one of `after`: both are between characters of the same free string.

        It does not hold for items that must differ: one more character may make two of them equal.
        """
        if not ending or after.string is None or before.string != after.string or after.unique:
            return False
        first = self.opened(before, known)
        if first is None or not (self._tokens.text(ending[0]) or b"").startswith(b'"'):
            return False
        machine, second = first.machine, self.opened(after, first)
        if not isinstance(machine, StringMachine) or second is None or second.machine is not first.machine:
            return False
        assert isinstance(first.state, StringPosition) and isinstance(second.state, StringPosition)
        return machine.is_between(first.state) and machine.is_between(second.state)

    def mask(self, opened: Opened, here: Callable[[], Matcher], left: int | None = None) -> TokenMask | None:
        """The mask with `left` tokens to close the string. None: only the grammar can compute it."""
        machine, state = opened.machine, opened.state
        is_known = isinstance(machine, StringMachine) or (left is None and isinstance(machine, StringMachines))
        if not is_known or not self._tokens.vocabulary.covers_bytes:
            return None
        assert isinstance(machine, StringMachines)
        place = opened.place
        if place not in self._accepted_after:
            self._accepted_after[place] = self._find_accepted_after(machine, state, here(), self._tails(place))
        accepted = self._accepted_after[place]
        if accepted is None:
            return None
        inside = machine.mask(state, left)
        key = (place, state.place if isinstance(state, StringPosition) else state, id(inside))
        if key not in self._masks:
            tokens, rest = self._tails(place).after(machine.closed_nodes(state))
            across = mask_of(self._tokens.size, tokens[accepted[rest]])
            self._masks[key] = join_masks(self._tokens.size, [inside, across]), inside
        return self._masks[key][0]

    def machine(self, string: StringType) -> Machine | None:
        """The machine of such strings; None if their masks come from the grammar."""
        if string not in self._machines:
            self._machines[string] = self._make_machine(string)
        return self._machines[string]

    def _make_machine(self, string: StringType) -> Machine | None:
        if isinstance(string, t.String) and is_free(string):
            return free_machine(self._tokens, string.min_chars, string.max_chars)
        if isinstance(string, Quoted) and string.max_tokens is not None:
            return self._plain(string)
        if not is_small(string):
            return None
        try:
            machine = self._plain(string)
            return machine if has_few_states(patterns_of(string), True) else None
        except GuideError:
            return None

    def _tails(self, place: bytes) -> QuoteTails:
        """The texts that tokens have after the string; if it is the whole value, the text that follows."""
        return quote_tails(self._tokens) if place else seam_tails(self._seam)

    def _find_accepted_after(
        self, machine: Machine, state: MachineState, matcher: Matcher, tails: QuoteTails
    ) -> NDArray[np.bool_] | None:
        """For every text that a token has after a quote, whether the grammar accepts it after this string."""
        ending = machine.ending(state)
        if ending is None or not (ahead := matcher.copy()).take(ending):
            return None
        found, at = np.zeros(len(tails.texts), dtype=np.bool_), 0
        while at < len(tails.texts):
            text = tails.texts[at]
            taken = ahead.inner.validate_tokens(tails.spelled[at])
            if taken == len(text):
                found[at] = True
                at += 1
            else:  # skip all texts with the same refused beginning
                refused = text[: taken + 1]
                at = max(at + 1, bisect_left(tails.texts, refused[:-1] + bytes((min(refused[-1] + 1, 0xFF),))))
        return found


@dataclass(frozen=True, slots=True)
class OpenLimit:
    """An open string with a limit: `left` more tokens may come, including the token that closes it."""

    opened: Opened
    left: int


class StringLimits:
    """The token limits of all strings inside one type. Raises `GuideError` if no value fits into one of them."""

    def __init__(self, strings: Sequence[Quoted], inside: OpenStrings, tokens: Tokens) -> None:
        self._inside = inside
        self._tokens = tokens
        for string in strings:
            machine = inside.machine(string)
            assert machine is not None
            ending = machine.ending(machine.start)
            assert string.max_tokens is not None
            if ending is None or len(ending) > string.max_tokens:
                shortest = "" if ending is None else f"; the shortest takes {len(ending)}"
                room = counted(string.max_tokens, "token")
                raise GuideError(f"inside a value, no value of {describe(string)} fits into {room}{shortest}")
        self._is_free = all(map(is_free, strings))

    def limit_at(self, prefix: JsonPrefix, taken: Sequence[int], known: Opened | None) -> OpenLimit | None:
        """The limit of the open string; None if it has none."""
        opened = self._inside.opened(prefix, known)
        if opened is None or not isinstance(opened.string, Quoted) or opened.string.max_tokens is None:
            return None
        assert prefix.string is not None
        spent, end = 0, len(prefix.raw)
        while end > prefix.string:
            spent += 1
            end -= len(self._tokens.text(taken[-spent]) or b"")
        return OpenLimit(opened, opened.string.max_tokens - spent)

    def within(self, limit: OpenLimit) -> TokenMask:
        """The tokens after which the string can be closed within its limit, and all tokens that close it."""
        machine, tokens = limit.opened.machine, self._tokens
        if machine is None or limit.left < 1:
            return frozen(empty_mask(tokens.size))
        found: TokenMask = machine.mask(limit.opened.state, limit.left) | tokens.cached(
            "closing a quote", self._closing
        )
        return found

    def _closing(self) -> TokenMask:
        machine, tails = free_machine(self._tokens, 0, None), quote_tails(self._tokens)
        closing = [tails.after(machine.closed_nodes(position))[0] for position in machine.positions]
        return mask_of(self._tokens.size, np.concatenate(closing))

    def without_bad_openings(self, mask: TokenMask) -> TokenMask:
        """Without tokens that open a string and leave it in a place from which closing may take many tokens."""
        key = ("opening well", self._is_free)
        narrowed: TokenMask = mask & ~self._tokens.cached(key, self._bad_openings)
        return frozen(narrowed) if narrowed.any() else mask

    def _bad_openings(self) -> TokenMask:
        is_bad = _ends_inside if self._is_free else _continues_string
        texts = enumerate(map(self._tokens.text, range(self._tokens.size)))
        return mask_of(
            self._tokens.size, [token for token, text in texts if text and b'"' in text and is_bad(_after_quote(text))]
        )

    def closes(self, limit: OpenLimit) -> bool:
        """Whether the limit forces the next token to close the string."""
        machine, state = limit.opened.machine, limit.opened.state
        if machine is None or limit.left > 1:
            return machine is None
        return bool((machine.mask(state, None) & ~machine.mask(state, limit.left)).any())

    def keeps(self, prefix: JsonPrefix, taken: Sequence[int], following: Sequence[int]) -> bool:
        """Whether all strings keep their limits after these tokens, and a string open at their end can be closed."""
        taken, known = list(taken), None
        limit: OpenLimit | None = None
        for token in following:
            prefix = prefix.extended(self._tokens.text(token) or b"")
            taken.append(token)
            limit = self.limit_at(prefix, taken, known)
            known = None if limit is None else limit.opened
            if limit is not None and (limit.left < 1 or limit.opened.machine is None):
                return False
        if limit is None or limit.opened.machine is None:
            return True
        ending = limit.opened.machine.ending(limit.opened.state)
        return ending is not None and len(ending) <= limit.left


def free_machine(tokens: Tokens, least: int, most: int | None) -> StringMachine:
    return StringMachine(spell_json(()), Seam(tokens, b""), least=least, most=most)


def _after_quote(text: bytes) -> bytes:
    return text[text.rindex(b'"') + 1 :]


def _continues_string(rest: bytes) -> bool:
    """Whether this text after a quote may belong to a string."""
    return bool(rest.strip(_STRUCTURE))


def _ends_inside(rest: bytes) -> bool:
    """Whether this text ends inside a character, or has escapes."""
    return b"\\" in rest or rest.decode("utf-8", "ignore").encode() != rest
