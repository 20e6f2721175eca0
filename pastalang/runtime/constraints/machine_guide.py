"""The guide of a value that a machine recognises: its state gives the machine the bytes of each token.

value so far ──┬── inside: the machine can continue
               └── possible ends: positions where the value may have ended, because the rest agrees with `follow`
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pastalang.runtime.constraints.choice_machine import ChoiceMachine, common_prefix
from pastalang.runtime.constraints.guide import (
    Accepted,
    Machine,
    MachineState,
    NoEndingFits,
    Position,
    PositionedState,
    TokenMask,
)
from pastalang.runtime.constraints.lead import GuideAfterLead, Lead
from pastalang.runtime.constraints.masks import allows, join_masks, mask_of
from pastalang.runtime.constraints.seam import Seam
from pastalang.runtime.constraints.tokens import Ints

_MANY = 256  # options of a choice: a longer list is not compared with the tokenizer's own spellings


@dataclass(frozen=True)
class MachineGuide(GuideAfterLead["MachineGuideState"]):
    machine: Machine
    seam: Seam
    lead: Lead | None = None

    def after(self, space: str) -> MachineGuide:
        return replace(self, lead=Lead(space, self.seam.tokens))

    def _begin(self, space: str, max_tokens: int) -> MachineGuideState:
        first = _Position(raw=b"", remaining=max_tokens, rest=space.encode(), state=self.machine.start)
        return MachineGuideState(self, first)

    @cached_property
    def shortest_value(self) -> int:
        ending = self.machine.ending(self.machine.start)
        if ending is None:
            raise NoEndingFits("no value of this type can be written with this vocabulary")
        return max(1, len(ending))

    @cached_property
    def _others(self) -> dict[bytes, dict[int, Ints]]:
        return {}

    def others(self, rest: bytes) -> dict[int, Ints]:
        """See `Lead.others`."""
        assert self.lead is not None
        if rest not in self._others:
            self._others[rest] = self.lead.others(rest, self.machine, self.seam)
        return self._others[rest]

    @cached_property
    def spellings(self) -> dict[bytes, tuple[int, ...]]:
        """The tokenizer's own tokens for the lead and each option of a choice; empty for other values."""
        machine, tokens = self.machine, self.seam.tokens
        if self.lead is None or not isinstance(machine, ChoiceMachine) or len(machine.options) > _MANY:
            return {}
        space = self.lead.space.encode()
        return {option: tokens.canonical(space + option) or () for option in machine.options}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position(Position):
    """`plan` is the rest of an ending that the value has begun to follow, because nothing else fits into the limit.

    `taken` are all tokens so far, with those of the lead.
    """

    state: MachineState
    taken: tuple[int, ...] = ()
    possible_ends: tuple[int, ...] = ()
    plan: tuple[int, ...] = ()


class MachineGuideState(PositionedState[_Position]):
    """See `guide.State`."""

    def __init__(self, guide: MachineGuide, position: _Position) -> None:
        super().__init__(position, guide.space)
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

    @property
    def rest(self) -> bytes:
        """The white space before the value that is not written yet."""
        return self._position.rest

    def value_text(self, token: int) -> bytes | None:
        """The token's bytes that belong to the value; None for a token without bytes."""
        text = self._guide.seam.tokens.text(token)
        return None if text is None else text[len(self._position.rest) :]

    def fork(self) -> MachineGuideState:
        return MachineGuideState(self._guide, self._position)

    # ── masks and forced tokens ────────────────────────────────────────────────────────────────────────────

    def allowed(self) -> TokenMask:
        return self._lead_mask() if self._position.rest else self._value_mask()

    def _lead_mask(self) -> TokenMask:
        guide, rest = self._guide, self._position.rest
        assert guide.lead is not None
        value = self._value_mask() if self._has_room else None
        others = guide.others(rest) if self._has_room else {}
        return guide.lead.mask(rest, value, others, shortest=guide.shortest_value, remaining=self.remaining)

    @property
    def _has_room(self) -> bool:
        """Whether a value may begin here."""
        return self._guide.shortest_value <= self._position.remaining

    def _value_mask(self) -> TokenMask:
        position, machine, seam = self._position, self._guide.machine, self._guide.seam
        assert position.end is None, "the value has ended"
        parts = [machine.mask(position.state, position.remaining)]
        if machine.accepts(position.state):
            parts.append(seam.mask)
        parts.extend(self._follow_tokens(start) for start in position.possible_ends)
        if forced_ending := self._forced_ending():
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
        position, tokens = self._position, self._guide.seam.tokens
        if (
            position.end is not None
            or position.possible_ends
            or position.plan
            or (position.rest and not self._has_room)
        ):
            return ()
        text = self._guide.machine.forced(position.state)
        found = tokens.canonical(text) if text else None
        if not found or not self._fits(text, found):
            return ()
        if (common := self._common_tokens()) is not None:
            return self._if_allowed(common)
        return self._if_allowed(tokens.canonical(position.rest + text) or ()) if position.rest else found

    def _common_tokens(self) -> tuple[int, ...] | None:
        """The next tokens that the tokenizer's spellings of all remaining options share, with the lead.

        None if the value is not a choice after a lead, or its tokens so far are not the tokenizer's own.
        """
        position, spellings = self._position, self._guide.spellings
        left = [spelling for option, spelling in spellings.items() if option.startswith(position.raw)]
        begun = len(position.taken)
        if not left or any(spelling[:begun] != position.taken for spelling in left):
            return None
        return common_prefix(min(left), max(left))[begun:]

    def _if_allowed(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """The tokens, if they are all allowed one after the other; otherwise none."""
        trial = self.fork()
        for token in tokens:
            if trial.is_finished or not allows(trial.allowed(), token):
                return ()
            trial.advance(token)
        return tokens

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
        assert not self.is_finished, "the value has ended"
        tokens, position = self._guide.seam.tokens, self._position
        piece, rest = tokens.text(token), position.rest
        taken = (*position.taken, token)
        if rest and (accepted := self._take_lead(piece)) is not None:
            self._position = replace(self._position, taken=taken)
            return accepted
        if rest:
            if piece is None or not piece.startswith(rest) or not self._has_room:
                raise ValueError(f"token {token} ({piece!r}) is not allowed here")
            piece = piece[len(rest) :]
            found = self._after(tokens.ids.get(piece), piece, taken)
        else:
            found = self._after(token, piece, taken)
        is_whole = found.end is None or found.end == len(found.raw)
        return self._accept(found, is_whole and token not in tokens.vocabulary.ends)

    def _after(self, token: int | None, piece: bytes | None, taken: tuple[int, ...]) -> _Position:
        position, machine, seam = self._position, self._guide.machine, self._guide.seam
        if piece is None:
            if token not in seam.tokens.vocabulary.ends or seam.follow or not machine.accepts(position.state):
                raise ValueError(f"token {token} is not allowed here")
            return replace(position, end=len(position.raw), remaining=position.remaining - 1, taken=taken)
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
                return self._ended(raw, state, taken, possible_ends[-1], cut=False)
            state = following
            if trim := machine.stop_bytes(state):
                return self._ended(raw, state, taken, at + 1 - trim, cut=False)
        if not machine.can_continue(state) and machine.accepts(state):
            return self._ended(raw, state, taken, len(raw), cut=self._was_cut(open_end=False))
        remaining = position.remaining - 1
        if remaining == 0:
            end = len(raw) if machine.accepts(state) else possible_ends[-1]
            return self._ended(raw, state, taken, end, cut=self._was_cut(open_end=end == len(raw)))
        forced_ending = self._forced_ending()
        plan = forced_ending[1:] if forced_ending[:1] == (token,) else ()
        return _Position(
            raw=raw, remaining=remaining, truncated=position.truncated, state=state, possible_ends=possible_ends,
            plan=plan, taken=taken,
        )  # fmt: skip

    def _ended(self, raw: bytes, state: MachineState, taken: tuple[int, ...], end: int, *, cut: bool) -> _Position:
        position = self._position
        truncated = position.truncated or cut
        return _Position(
            raw=raw, remaining=position.remaining - 1, end=end, truncated=truncated, state=state, taken=taken
        )

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
