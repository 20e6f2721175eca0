"""The guide of a value that a machine recognises: its state gives the machine the bytes of each token.

value so far ──┬── inside: the machine can continue
               └── possible ends: positions where the value may have ended, because the rest agrees with `follow`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pastalang.runtime.constraints.guide import (
    Accepted,
    Machine,
    MachineState,
    NoEndingFits,
    Position,
    PositionedState,
    TokenMask,
)
from pastalang.runtime.constraints.masks import join_masks, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.values.describe import counted


@dataclass(frozen=True)
class MachineGuide:
    machine: Machine
    seam: Seam

    def start(self, *, max_tokens: int) -> MachineGuideState:
        needed = self.shortest
        if needed > max_tokens:
            raise NoEndingFits(f"no value fits into {counted(max_tokens, 'token')}; the shortest takes {needed}")
        return MachineGuideState(self, [_Position(raw=b"", remaining=max_tokens, state=self.machine.start)])

    @cached_property
    def shortest(self) -> int:
        ending = self.machine.ending(self.machine.start)
        if ending is None:
            raise NoEndingFits("no value of this type can be written with this vocabulary")
        return max(1, len(ending))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position(Position):
    """`plan` is the rest of an ending that the value has begun to follow, because nothing else fits into the limit."""

    state: MachineState
    possible_ends: tuple[int, ...] = ()
    plan: tuple[int, ...] = ()


class MachineGuideState(PositionedState[_Position]):
    """See `guide.State`."""

    def __init__(self, guide: MachineGuide, positions: list[_Position]) -> None:
        super().__init__(positions)
        self._guide = guide
        self._ending: tuple[_Position, tuple[int, ...]] | None = None  # what `_forced_ending` last found, and where

    @property
    def machine(self) -> Machine:
        return self._guide.machine

    @property
    def seam(self) -> Seam:
        return self._guide.seam

    @property
    def machine_state(self) -> MachineState:
        return self._position.state

    def fork(self) -> MachineGuideState:
        return MachineGuideState(self._guide, list(self._positions))

    # ── masks and forced tokens ────────────────────────────────────────────────────────────────────────────

    def allowed(self) -> TokenMask:
        return self._mask(self._position.remaining)

    def mask_without_limit(self) -> TokenMask:
        return self._mask(None)

    def _mask(self, remaining: int | None) -> TokenMask:
        position, machine, seam = self._position, self._guide.machine, self._guide.seam
        assert position.end is None, "the value has ended"
        parts = [machine.mask(position.state, remaining)]
        if machine.accepts(position.state):
            parts.append(seam.mask)
        parts.extend(self._follow_tokens(start) for start in position.possible_ends)
        if remaining is not None and (forced_ending := self._forced_ending()):
            return mask_of(seam.tokens.size, forced_ending[:1])
        if len(parts) == 1:
            return parts[0]
        if len(parts) == 2 and not position.possible_ends:  # the common case keeps one array per state
            key = ("seam", id(parts[0]), id(parts[1]))
            joined, _ = seam.tokens.cached_recent(key, lambda: (join_masks(seam.tokens.size, parts), parts))
            return joined
        return join_masks(seam.tokens.size, parts)

    def _follow_tokens(self, start: int) -> TokenMask:
        """The tokens that continue the following text, which may have begun at `start`."""
        seam = self._guide.seam
        done = self._position.raw[start:]
        if len(done) >= len(seam.follow):
            return mask_of(seam.tokens.size, ())
        rest = Seam(seam.tokens, seam.follow[len(done) :])
        return rest.mask

    def forced(self) -> tuple[int, ...]:
        position, machine, tokens = self._position, self._guide.machine, self._guide.seam.tokens
        if position.end is not None or position.possible_ends or position.plan:
            return ()
        text = machine.forced(position.state)
        found = tokens.canonical(text) if text else None
        return found if found and self._fits(text, found) else ()

    def _fits(self, text: bytes, found: tuple[int, ...]) -> bool:
        """Whether the value can still be completed if this text is written with these tokens."""
        state: MachineState | None = self._position.state
        for byte in text:
            assert state is not None
            state = self._guide.machine.step(state, byte)
        assert state is not None, "the machine refused a byte that it forces"
        ending = self._guide.machine.ending(state)
        return ending is not None and len(found) + len(ending) <= self._position.remaining

    def _forced_ending(self) -> tuple[int, ...]:
        """The ending that the value must follow, if nothing else is known to fit; otherwise empty."""
        if self._ending is None or self._ending[0] is not self._position:
            self._ending = self._position, self._find_forced_ending()
        return self._ending[1]

    def _find_forced_ending(self) -> tuple[int, ...]:
        position, machine = self._position, self._guide.machine
        if position.plan:
            return position.plan
        if (
            position.possible_ends
            or machine.accepts(position.state)
            or machine.mask(position.state, position.remaining).any()
        ):
            return ()
        ending = machine.ending(position.state)
        assert ending and len(ending) <= position.remaining, "no ending of the value fits into its limit"
        return ending

    # ── taking a token ─────────────────────────────────────────────────────────────────────────────────────

    def advance(self, token: int) -> Accepted:
        return self._advance(token, self._guide.seam.tokens.text(token))

    def advance_by_bytes(self, piece: bytes) -> Accepted:
        """Take only these bytes of a token: its beginning belongs to the white space before the value."""
        return self._advance(None, piece)

    def _advance(self, token: int | None, piece: bytes | None) -> Accepted:
        assert not self.is_finished, "the value has ended"
        position = self._after(token, piece)
        is_whole = position.end is None or position.end == len(position.raw)
        return self._accept(position, is_whole and token not in self._guide.seam.tokens.vocabulary.ends)

    def _after(self, token: int | None, piece: bytes | None) -> _Position:
        position, machine, seam = self._position, self._guide.machine, self._guide.seam
        if piece is None:
            if token not in seam.tokens.vocabulary.ends or seam.follow or not machine.accepts(position.state):
                raise ValueError(f"token {token} is not allowed here")
            return replace(position, end=len(position.raw), remaining=position.remaining - 1)
        raw = position.raw + piece
        possible_ends = tuple(start for start in position.possible_ends if seam.agrees(raw[start:]))
        state = position.state
        for at in range(len(position.raw), len(raw)):
            if seam.agrees(raw[at:]) and machine.accepts(state):  # in this order, because few texts agree
                possible_ends = (*possible_ends, at)
            following = machine.step(state, raw[at])
            if following is None:
                if not possible_ends:
                    raise ValueError(f"token {token} ({piece!r}) is not allowed here")
                return self._ended(raw, state, possible_ends[-1], cut=False)
            state = following
            if trim := machine.stop_bytes(state):
                return self._ended(raw, state, at + 1 - trim, cut=False)
        if not machine.can_continue(state) and machine.accepts(state):
            return self._ended(raw, state, len(raw), cut=self._was_cut(open_end=False))
        remaining = position.remaining - 1
        if remaining == 0:
            end = len(raw) if machine.accepts(state) else possible_ends[-1]
            return self._ended(raw, state, end, cut=self._was_cut(open_end=end == len(raw)))
        forced_ending = self._forced_ending()
        plan = forced_ending[1:] if forced_ending[:1] == (token,) else ()
        return _Position(
            raw=raw, remaining=remaining, truncated=position.truncated, state=state, possible_ends=possible_ends,
            plan=plan,
        )  # fmt: skip

    def _ended(self, raw: bytes, state: MachineState, end: int, *, cut: bool) -> _Position:
        position = self._position
        truncated = position.truncated or cut
        return _Position(raw=raw, remaining=position.remaining - 1, end=end, truncated=truncated, state=state)

    def _was_cut(self, *, open_end: bool) -> bool:
        """Whether the limit ended the value, which could have continued."""
        position, machine = self._position, self._guide.machine
        if self._forced_ending():
            return True
        if position.remaining > 1:
            return False
        if open_end:
            return True
        free, bound = machine.mask(position.state, None), machine.mask(position.state, position.remaining)
        return bool((free & ~bound).any())
