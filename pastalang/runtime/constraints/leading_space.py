"""White space before a value, sampled together with the value: most tokenizers join a space and the next word.

`LeadingSpaceGuide` wraps the value's guide and constrains `lead + value`. The lead does not belong to the value.

    lead ` `        ` "` · ` 12` · ` true`    a token with the lead and the beginning of the value
                    ` `                       the lead alone, if a value still fits after it

The value's guide takes the rest of such a token: as the token with that text if there is one, otherwise as bytes.
Every token counts against the limit, also a token of the lead alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from pastalang.runtime.constraints.choice_machine import ChoiceMachine, common_prefix
from pastalang.runtime.constraints.guide import Accepted, Guide, Machine, NoEndingFits, State, TokenMask
from pastalang.runtime.constraints.machine_guide import MachineGuide, MachineGuideState
from pastalang.runtime.constraints.masks import allows, mask_of
from pastalang.runtime.constraints.tokens import BoundedCache, Ints, Tokens
from pastalang.values.describe import counted

MANY = 256  # options of a choice: a longer list is not compared with the tokenizer's own spellings
_NEVER = -1


class LeadingSpaceGuide:
    """See `guide.Guide`. `lead` is the white space, at least one character."""

    def __init__(self, inner: Guide, lead: str, tokens: Tokens) -> None:
        self.inner = inner
        self.lead = lead
        self.tokens = tokens
        self._masks: BoundedCache[Hashable, tuple[TokenMask, object]] = BoundedCache(MANY)
        self._others: dict[bytes, dict[int, Ints]] = {}
        self._spellings: dict[bytes, tuple[int, ...]] | None = None

    def start(self, *, max_tokens: int) -> LeadingSpaceState:
        state = LeadingSpaceState(self, max_tokens)
        if max_tokens <= self.inner.shortest + len(self.lead) and not state.allowed().any():
            raise NoEndingFits(f"no value fits into {counted(max_tokens, 'token')} after its white space")
        return state

    @property
    def shortest(self) -> int:
        least = self.inner.shortest
        try:
            self.start(max_tokens=least)
        except NoEndingFits:
            return least + len(self.tokens.shortest(self.lead.encode()) or self.lead)
        return least

    # ── the first tokens ───────────────────────────────────────────────────────────────────────────────────

    def first_tokens(self, rest: bytes) -> _FirstTokens:
        return self.tokens.cached(("lead", rest), lambda: _first_tokens(self.tokens, rest))

    def mask(self, rest: bytes, fresh: State | None, remaining: int | None) -> TokenMask:
        """The tokens that may come first, given the rest of the lead.

        `fresh` is the value's state before its first token; None if no value fits.
        """
        inside = None if fresh is None else fresh.mask_without_limit() if remaining is None else fresh.allowed()
        others = self._tokens_by_ending(rest, fresh) if isinstance(fresh, MachineGuideState) else {}
        fitting = tuple(cost for cost in others if remaining is None or cost < remaining)
        room = None if remaining is None else min(remaining, self.inner.shortest + len(self.lead) + 1)
        sure = b"" if fresh is None or isinstance(fresh, MachineGuideState) else self.text_of(fresh.forced())
        key = (rest, id(inside), fitting, room, sure)
        known = self._masks.get(key)
        if known is None:
            parts = [self._alone(rest, room), *(others[cost] for cost in fitting)]
            if inside is not None:
                parts.append(self._merged(rest, inside))
                parts.append(self._beginning(rest, sure))
            known = self._masks[key] = mask_of(self.tokens.size, np.concatenate(parts)), inside
        return known[0]

    def _alone(self, rest: bytes, remaining: int | None) -> Ints:
        found = []
        for token, length in self.first_tokens(rest).alone:
            left = self.tokens.shortest(rest[length:])
            if left is not None and (remaining is None or 1 + len(left) + self.inner.shortest <= remaining):
                found.append(token)
        return np.array(found, dtype=np.int64)

    def _merged(self, rest: bytes, inside: TokenMask) -> Ints:
        begin = self.first_tokens(rest)
        is_allowed = inside[begin.plain >> 5] >> (begin.plain & 31).astype(np.uint32) & np.uint32(1)
        found: Ints = begin.merged[is_allowed.astype(np.bool_)]
        return found

    def _beginning(self, rest: bytes, sure: bytes) -> Ints:
        """The tokens of the lead and the beginning of a forced text: a grammar's own mask has only one of them."""
        spellings = (rest + sure[:length] for length in range(1, len(sure) + 1))
        begun = [
            (token, spelling[len(rest) :]) for spelling in spellings for token in self.tokens.by_text.get(spelling, ())
        ]
        return np.array([token for token, text in begun if text in self.tokens.ids], dtype=np.int64)

    def text_of(self, tokens: tuple[int, ...]) -> bytes:
        return b"".join(self.tokens.text(token) or b"" for token in tokens)

    def _tokens_by_ending(self, rest: bytes, fresh: MachineGuideState) -> dict[int, Ints]:
        """The `others` that the machine accepts, grouped by the number of tokens of the shortest ending after each."""
        if rest not in self._others:
            found: dict[int, list[int]] = {}
            reader = _Reader(fresh)
            for token, text in self.first_tokens(rest).others:
                cost = reader.cost(text)
                if cost != _NEVER:
                    found.setdefault(cost, []).append(token)
            self._others[rest] = {cost: np.array(tokens, dtype=np.int64) for cost, tokens in found.items()}
        return self._others[rest]

    # ── the spellings of options ───────────────────────────────────────────────────────────────────────────

    def spellings(self) -> dict[bytes, tuple[int, ...]]:
        """The tokenizer's own tokens for the lead and each option of a choice; empty for other values."""
        if self._spellings is None:
            machine = self.inner.machine if isinstance(self.inner, MachineGuide) else None
            options = machine.options if isinstance(machine, ChoiceMachine) and len(machine.options) <= MANY else []
            lead = self.lead.encode()
            self._spellings = {option: self.tokens.canonical(lead + option) or () for option in options}
        return self._spellings


class LeadingSpaceState:
    """See `guide.State`. `_taken` are all its tokens; the value's state has taken the last `_inner_tokens` of them."""

    __slots__ = ("_fresh", "_guide", "_inner", "_inner_tokens", "_limit", "_rest", "_taken")

    def __init__(self, guide: LeadingSpaceGuide, limit: int) -> None:
        self._guide = guide
        self._limit = limit
        self._start()

    def _start(self) -> None:
        self._rest = self._guide.lead.encode()  # the rest of the lead
        self._taken: tuple[int, ...] = ()
        self._inner_tokens = 0
        self._inner: State | None = None
        self._fresh: State | None = None

    # ── the value so far ───────────────────────────────────────────────────────────────────────────────────

    @property
    def lead(self) -> str:
        return self._guide.lead

    @property
    def inner(self) -> State | None:
        """The value's state. Before the value has begun: the state of a value that begins here, None if none fits."""
        if self._inner is None and self._fresh is None:
            try:
                self._fresh = self._guide.inner.start(max_tokens=self.remaining)
            except NoEndingFits:
                return None
        return self._inner or self._fresh

    def after_space(self, token: int) -> bytes | None:
        """The token's bytes after the lead; None for a token without bytes."""
        text = self._guide.tokens.text(token)
        return text if text is None or self._inner is not None else text[len(self._rest) :]

    @property
    def is_finished(self) -> bool:
        return self._inner is not None and self._inner.is_finished

    @property
    def truncated(self) -> bool:
        return self._inner is not None and self._inner.truncated

    @property
    def remaining(self) -> int:
        return self._limit - len(self._taken) if self._inner is None else self._inner.remaining

    @property
    def text(self) -> str:
        return "" if self._inner is None else self._inner.text

    def fork(self) -> LeadingSpaceState:
        copied = LeadingSpaceState(self._guide, self._limit)
        copied._rest, copied._taken, copied._inner_tokens = self._rest, self._taken, self._inner_tokens
        copied._inner = None if self._inner is None else self._inner.fork()
        return copied

    def roll_back(self, tokens: int) -> None:
        assert tokens <= len(self._taken), "rolled back before the start"
        kept = self._taken[: len(self._taken) - tokens]
        if self._inner is not None and tokens < self._inner_tokens:
            self._inner.roll_back(tokens)
            self._inner_tokens -= tokens
            self._taken = kept
        elif tokens:
            self._start()
            for token in kept:
                self.advance(token)

    # ── masks and forced tokens ────────────────────────────────────────────────────────────────────────────

    def allowed(self) -> TokenMask:
        if self._inner is not None:
            return self._inner.allowed()
        return self._guide.mask(self._rest, self.inner, self.remaining)

    def mask_without_limit(self) -> TokenMask:
        if self._inner is not None:
            return self._inner.mask_without_limit()
        return self._guide.mask(self._rest, self.inner, None)

    def forced(self) -> tuple[int, ...]:
        """The lead together with the forced beginning of the value."""
        inside = self.inner
        forced = () if inside is None else inside.forced()
        if not forced:
            return ()
        if (known := self._common_tokens()) is not None:
            return self._if_accepted(known)
        if self._inner is not None:
            return forced
        guide = self._guide
        return self._if_accepted(guide.tokens.canonical(self._rest + guide.text_of(forced)) or ())

    def _if_accepted(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens, if they are all allowed one after the other; otherwise none."""
        trial = self.fork()
        for token in tokens:
            is_checked = trial._inner is None or isinstance(trial._inner, MachineGuideState)
            if trial.is_finished or (is_checked and not allows(trial.allowed(), token)):
                return ()
            try:
                kept = trial.advance(token).kept
            except ValueError:
                return ()
            if not kept and not is_checked:  # the limit ended the value
                return ()
        return tokens

    def _common_tokens(self) -> tuple[int, ...] | None:
        """The next tokens that the spellings of all remaining options share.

        None if the value is not a choice, or its tokens so far are not the tokenizer's own.
        """
        spellings = self._guide.spellings()
        if not spellings:
            return None
        written = self.text.encode()
        left = [spelling for option, spelling in spellings.items() if option.startswith(written)]
        begun = len(self._taken)
        if not left or any(spelling[:begun] != self._taken for spelling in left):
            return None
        return common_prefix(min(left), max(left))[begun:]

    # ── taking a token ─────────────────────────────────────────────────────────────────────────────────────

    def advance(self, token: int) -> Accepted:
        if self._inner is None:
            accepted = self._begin(token)
        else:
            accepted = self._inner.advance(token)
            self._inner_tokens += 1
        self._taken = (*self._taken, token)
        return accepted

    def _begin(self, token: int) -> Accepted:
        tokens, rest = self._guide.tokens, self._rest
        piece = tokens.text(token)
        if piece is not None and rest.startswith(piece):
            if piece == rest:
                self._inner = self._guide.inner.start(max_tokens=self.remaining - 1)
            self._rest, self._fresh = rest[len(piece) :], None
            return Accepted("", True, False, piece.decode())
        inside = self.inner
        if piece is None or inside is None or not piece.startswith(rest):
            raise ValueError(f"token {token} ({piece!r}) is not allowed here")
        rest_of_piece = piece[len(rest) :]
        plain = tokens.ids.get(rest_of_piece)
        if plain is not None:
            accepted = inside.advance(plain)
        else:
            assert isinstance(inside, MachineGuideState), "only the state of a machine takes bytes"
            accepted = inside.advance_by_bytes(rest_of_piece)
        self._rest, self._inner, self._fresh, self._inner_tokens = b"", inside, None, 1
        return replace(accepted, lead=rest.decode())


@dataclass(frozen=True)
class _FirstTokens:
    """The tokens that may come first, given the rest of a lead.

    `alone` are the tokens that are a beginning of the lead, with their length. The other tokens begin with the lead:
    `plain[k]` is the token with the text of `merged[k]` after the lead; for `others` there is no such token.
    """

    alone: tuple[tuple[int, int], ...]
    merged: Ints
    plain: Ints
    others: tuple[tuple[int, bytes], ...]


def _first_tokens(tokens: Tokens, lead: bytes) -> _FirstTokens:
    alone: list[tuple[int, int]] = []
    merged: list[tuple[int, int]] = []
    others: list[tuple[int, bytes]] = []
    for token, text in enumerate(tokens.vocabulary.spelling):
        if text and lead.startswith(text):
            alone.append((token, len(text)))
        elif text and text.startswith(lead):
            rest = text[len(lead) :]
            plain = tokens.ids.get(rest)
            if plain is None:
                others.append((token, rest))
            else:
                merged.append((token, plain))
    pairs = np.array(merged, dtype=np.int64).reshape(-1, 2)
    return _FirstTokens(tuple(alone), pairs[:, 0], pairs[:, 1], tuple(others))


class _Reader:
    """Runs a machine over the rests of tokens, from the start of the value."""

    def __init__(self, fresh: MachineGuideState) -> None:
        self._machine: Machine = fresh.machine
        self._agrees = fresh.seam.agrees
        self._start = fresh.machine.start
        self._next: dict[tuple[Hashable, int], Hashable | None] = {}
        self._about: dict[Hashable, tuple[bool, bool]] = {}
        self._endings: dict[Hashable, int] = {}

    def cost(self, text: bytes) -> int:
        """The number of tokens of an ending after the text; `_NEVER` if no value begins with the text."""
        machine, state, may_have_ended = self._machine, self._start, False
        for at, byte in enumerate(text):
            if self._facts(state)[0] and self._agrees(text[at:]):
                may_have_ended = True
            following = self._step(state, byte)
            if following is None:
                return 0 if may_have_ended else _NEVER
            state = following
            if self._facts(state)[1]:
                return 0
        if may_have_ended:
            return 0
        if state not in self._endings:
            ending = machine.ending(state)
            self._endings[state] = _NEVER if ending is None else len(ending)
        return self._endings[state]

    def _step(self, state: Hashable, byte: int) -> Hashable | None:
        key = state, byte
        if key not in self._next:
            self._next[key] = self._machine.step(state, byte)
        return self._next[key]

    def _facts(self, state: Hashable) -> tuple[bool, bool]:
        """Whether the value may end here, and whether a stop text has ended it."""
        if state not in self._about:
            self._about[state] = self._machine.accepts(state), bool(self._machine.stop_bytes(state))
        return self._about[state]
