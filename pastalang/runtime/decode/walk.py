"""The state of a hole whose values are the language of a machine: bytes are followed token by token.

value so far ──┬── inside: the machine can go on
               └── borders: places where the value may have ended, because all behind them agrees with `follow`
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pastalang.runtime.constraints.guide import Accepted, Machine, MachineState, NoEndingFits, TokenMask
from pastalang.runtime.constraints.masks import allows, join_masks, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.values.words import counted


@dataclass(frozen=True)
class MachineGuide:
    machine: Machine
    seam: Seam
    meaning: str

    def start(self, *, max_tokens: int) -> Walk:
        needed = self.shortest
        if needed > max_tokens:
            raise NoEndingFits(f"no value fits into {counted(max_tokens, 'token')}; the shortest takes {needed}")
        return Walk(self, _Stand(self.machine.start, b"", (), max_tokens))

    @property
    def shortest(self) -> int:
        ending = self.machine.ending(self.machine.start)
        if ending is None:
            raise NoEndingFits("no value of this type can be written with this vocabulary")
        return max(1, len(ending))

    def explain(self) -> str:
        return self.meaning


@dataclass(frozen=True, slots=True)
class _Stand:
    """`end` is set when the value has ended: how many bytes of `raw` are its own. `plan` is the ending to follow."""

    state: MachineState
    raw: bytes
    borders: tuple[int, ...]
    remaining: int
    end: int | None = None
    truncated: bool = False
    plan: tuple[int, ...] = ()
    before: _Stand | None = None


class Walk:
    """See `guide.State`."""

    __slots__ = ("_guide", "_stand")

    def __init__(self, guide: MachineGuide, stand: _Stand) -> None:
        self._guide = guide
        self._stand = stand

    # ── what is known ────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_finished(self) -> bool:
        return self._stand.end is not None

    @property
    def truncated(self) -> bool:
        return self._stand.truncated

    @property
    def remaining(self) -> int:
        return self._stand.remaining

    @property
    def text(self) -> str:
        return _text_of(self._stand)

    @property
    def machine(self) -> Machine:
        return self._guide.machine

    @property
    def seam(self) -> Seam:
        return self._guide.seam

    @property
    def machine_state(self) -> MachineState:
        return self._stand.state

    def fork(self) -> Walk:
        return Walk(self._guide, self._stand)

    def roll_back(self, tokens: int) -> None:
        for _ in range(tokens):
            assert self._stand.before is not None, "rolled back behind the start"
            self._stand = self._stand.before

    def explain(self) -> str:
        where = "ended" if self.is_finished else f"{counted(self.remaining, 'token')} left"
        return f"{self._guide.meaning}; {self.text!r} so far, {where}"

    # ── what may come ────────────────────────────────────────────────────────────────────────────────────

    def allowed(self) -> TokenMask:
        return self._mask(self._stand.remaining)

    def unlimited(self) -> TokenMask:
        return self._mask(None)

    def _mask(self, remaining: int | None) -> TokenMask:
        stand, machine, seam = self._stand, self._guide.machine, self._guide.seam
        assert stand.end is None, "the value has ended"
        parts = [machine.mask(stand.state, remaining)]
        if machine.accepts(stand.state):
            parts.append(seam.mask)
        parts.extend(self._behind(start) for start in stand.borders)
        if remaining is not None and (leash := self._leash()):
            return mask_of(seam.tokens.size, leash[:1])
        if len(parts) == 1:
            return parts[0]
        if len(parts) == 2 and not stand.borders:  # the common case keeps one array per state
            key = ("border", id(parts[0]), id(parts[1]))
            joined, _ = seam.tokens.keep_some(key, lambda: (join_masks(seam.tokens.size, parts), parts))
            return joined
        return join_masks(seam.tokens.size, parts)

    def _behind(self, start: int) -> TokenMask:
        """The tokens that carry on what began at a border."""
        seam = self._guide.seam
        done = self._stand.raw[start:]
        if len(done) >= len(seam.follow):
            return mask_of(seam.tokens.size, ())
        rest = Seam(seam.tokens, seam.follow[len(done) :])
        return rest.mask

    def forced(self) -> tuple[int, ...]:
        stand, machine, tokens = self._stand, self._guide.machine, self._guide.seam.tokens
        if stand.end is not None or stand.borders or stand.plan:
            return ()
        text = machine.forced(stand.state)
        found = tokens.canonical(text) if text else None
        return found if found and self._fits(text, found) else ()

    def _fits(self, text: bytes, found: tuple[int, ...]) -> bool:
        """Whether the value can still be completed behind this text when it is written with these tokens."""
        state: MachineState | None = self._stand.state
        for byte in text:
            assert state is not None
            state = self._guide.machine.step(state, byte)
        assert state is not None, "a forced byte was refused"
        ending = self._guide.machine.ending(state)
        return ending is not None and len(found) + len(ending) <= self._stand.remaining

    def _leash(self) -> tuple[int, ...]:
        """The ending that has to be followed, where nothing else is known to fit."""
        stand, machine = self._stand, self._guide.machine
        if stand.plan:
            return stand.plan
        if stand.borders or machine.accepts(stand.state) or machine.mask(stand.state, stand.remaining).any():
            return ()
        ending = machine.ending(stand.state)
        assert ending and len(ending) <= stand.remaining, "a value without an ending that fits"
        return ending

    # ── taking a token ───────────────────────────────────────────────────────────────────────────────────

    def advance(self, token: int) -> Accepted:
        return self._advance(token, self._guide.seam.tokens.text(token))

    def advance_by(self, piece: bytes) -> Accepted:
        """As `advance`, by what is left of a token whose beginning stands before the value."""
        return self._advance(None, piece)

    def _advance(self, token: int | None, piece: bytes | None) -> Accepted:
        before = self._stand
        assert before.end is None, "the value has ended"
        known = self.text
        self._stand = self._after(token, piece)
        finished = self._stand.end is not None
        kept = not finished or self._stand.end == len(self._stand.raw)
        if token in self._guide.seam.tokens.vocabulary.ends:
            kept = False
        return Accepted(self.text[len(known) :], kept, finished)

    def _after(self, token: int | None, piece: bytes | None) -> _Stand:
        stand, machine, seam = self._stand, self._guide.machine, self._guide.seam
        if piece is None:
            if token not in seam.tokens.vocabulary.ends or seam.follow or not machine.accepts(stand.state):
                raise ValueError(f"token {token} is not allowed here")
            return replace(stand, end=len(stand.raw), remaining=stand.remaining - 1, before=stand)
        raw = stand.raw + piece
        borders = tuple(start for start in stand.borders if seam.agrees(raw[start:]))
        state = stand.state
        for at in range(len(stand.raw), len(raw)):
            if machine.accepts(state) and seam.agrees(raw[at:]):
                borders = (*borders, at)
            following = machine.step(state, raw[at])
            if following is None:
                if not borders:
                    raise ValueError(f"token {token} ({piece!r}) is not allowed here")
                return self._ended(raw, state, borders[-1], cut=False)
            state = following
            if trim := machine.trimmed(state):
                return self._ended(raw, state, at + 1 - trim, cut=False)
        if not machine.goes_on(state) and machine.accepts(state):
            return self._ended(raw, state, len(raw), cut=self._was_cut(open_end=False))
        remaining = stand.remaining - 1
        if remaining == 0:
            end = len(raw) if machine.accepts(state) else borders[-1]
            return self._ended(raw, state, end, cut=self._was_cut(open_end=end == len(raw)))
        leash = self._leash()
        plan = leash[1:] if leash[:1] == (token,) else ()
        return _Stand(state, raw, borders, remaining, None, stand.truncated, plan, stand)

    def _ended(self, raw: bytes, state: MachineState, end: int, *, cut: bool) -> _Stand:
        stand = self._stand
        return _Stand(state, raw, (), stand.remaining - 1, end, stand.truncated or cut, (), stand)

    def _was_cut(self, *, open_end: bool) -> bool:
        """Whether the limit ended the value: with its last token, where the value could have gone on."""
        stand, machine = self._stand, self._guide.machine
        if self._leash():
            return True
        if stand.remaining > 1:
            return False
        if open_end:
            return True
        free, bound = machine.mask(stand.state, None), machine.mask(stand.state, stand.remaining)
        return bool((free & ~bound).any())


def _text_of(stand: _Stand) -> str:
    return stand.raw[: stand.end].decode("utf-8", "ignore")


def is_allowed(state: Walk, token: int) -> bool:
    return allows(state.allowed(), token)
