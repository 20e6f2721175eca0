"""The head start of pasta-mini: it finds what a program asks for before any training.

    first layer     four heads note what the words one to four tokens back mean, and how they are spelled
    second layer    three heads note what the words five to seven tokens back mean; one tags each token with the name at
                    the nearest colon before it; one marks what comes after the program, and what is the text
    third layer     one reads the line of the program that is tagged with the name that is asked for
    fourth layer    where a value is asked for, two heads find the place whose notes match that, and say what stands
                    there, or `null`; elsewhere, two find what follows the same words in the text, and say that

    program       "due_date": date  // when the money is expected
                              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ is tagged with `due_date`, and read
    document      Pay by: 3 May 2026
                          ^ is found: it has noted `Pay by`
    answer        "due_date": "
                              ^ asks: it has noted `due_date`, and what is read

What belongs together is in `Meanings`. A circuit has coordinates and heads of its own, and training leaves them as they
are: a step of an optimiser is as large as many of their numbers. All other heads begin nearly silent.

Transformers find such circuits by themselves, after billions of tokens of text. A small model that extracts values
needs them before anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pastalang.training.errors import BadData
from recipes.pasta_mini.head_start import SPACED, STEADY, Heads
from recipes.pasta_mini.meanings import BACK, Meanings
from recipes.pasta_mini.tokenizer import Twins, Writing

# Coordinates: marks of tokens, after those that every model with a head start has; and marks that circuits write.
_CAPITAL, _OTHERS, _COLON, _LINE, _END, _ANSWER, _BEGIN, _ASK, _PRIOR = range(2, 11)
_PAST, _IN_TEXT, _NEXT = range(11, 14)  # after the program; that, before the answer; after the end of a tagged line
_MARKS = 14

# Lengths, in widths of the embeddings.
_WIDTH = 0.25
_FAR = 5.0  # how far most marks stand out
_STEADY_FAR, _SPACED_FAR, _LINE_FAR, _NOTED_FAR, _PRIOR_FAR = 4.0, 2.0, 2.0, 2.0, 0.1
_MEANT, _RANDOM = 0.2, 0.2  # the share of a squared length that a meaning takes at most, and what nobody reads at least
_NOTE, _SPELLED = 0.1, 0.4  # of a typical note of meanings, beside an embedding; of how a word is spelled
_FADE = 0.7  # how much less each word of a name is noted than the one after it
_LONGER = (1.0, 1.03, 1.065, 1.085)  # what an embedding grows to with its notes, before each layer
_SAY, _QUOTED, _SAY_REPEATED, _HINT = 3.0, 0.4, 2.0, 0.05
_LOGITS = 0.05  # tokens are told apart as if this was the width of the embeddings

# What heads look at. Those with a name that ends in nats are just that.
_BACK, _BACK_TURNS, _NO_BACK_NATS = 3.0, range(7), 6.0  # less than for a token at the right place
_NEAR, _NEAR_TURNS, _NEAREST_NATS = 7.0, (0.003, 0.02), 400.0  # turns fall over a whole prompt, and tell lines apart
_MARKED = 3.0
_READ, _UNREAD = 12.0, 0.35  # how much of a name has to be alike to be read about
_REPEAT, _REPEAT_NATS = 5.0, 6.0
_TEXT_NATS, _NEVER_NATS, _RESTING_NATS = 14.0, 12.0, 60.0
_RARER_NATS = 2.2  # sums of notes are less exact than those that were learned, and two places say `null`
_TURN = 0.0025  # a turn for each place that still lets tokens be compared that are far from each other


@torch.no_grad()
def give_circuits(model: Any, *, seed: int, twins: Twins, writing: Writing, meanings: Meanings) -> None:
    """For models of Llama's shape with five heads or more."""
    circuits = _Circuits(model, meanings, torch.Generator().manual_seed(seed))
    circuits.embed(twins, writing)
    circuits.silence()
    circuits.note()
    circuits.mark()
    circuits.tag()
    circuits.read()
    circuits.find(writing)
    circuits.repeat(writing)
    circuits.keep()


class _Circuits:
    def __init__(self, model: Any, meanings: Meanings, random: torch.Generator) -> None:
        self._model, self._layers, self._meanings = model, model.model.layers, meanings
        self._embeddings = model.get_input_embeddings().weight
        size = model.config.hidden_size // model.config.num_attention_heads
        self._dims = meanings.words.shape[1]
        self._spells = size - self._dims  # numbers that tell the words of names apart
        ends = [_MARKS]
        for count in (self._dims, self._dims, self._dims, self._spells, self._spells):
            ends.append(ends[-1] + count)
        self._words, self._asked, self._stated, self._name, self._field = map(slice, ends[:-1], ends[1:])
        self._free = slice(ends[-1], model.config.hidden_size)
        self._heads = Heads(model, self._free, random)
        slow = torch.arange(size // 2)[self._heads.turns < _TURN]
        pairs = torch.stack((slow, slow + size // 2), 1)
        self._far, self._slots = pairs[:-2].flatten()[: self._dims], pairs[-2:].flatten().tolist()
        too_narrow = self._free.start + 2 * size > self._free.stop or len(self._far) < self._dims
        if self._heads.count < 5 or too_narrow or len(self._layers) < 4:
            raise BadData("these circuits take 4 layers, 5 heads, and heads of 64 coordinates")
        self._long = _WIDTH * self._heads.width**0.5
        longest = meanings.words.norm(dim=1).quantile(0.99).item()
        self._unit = _MEANT**0.5 * self._long / longest / _WIDTH  # how long a meaning of length 1 is
        drawn = self._heads.directions()
        self._spelled = drawn[: self._spells]  # the coordinates that tell words apart
        self._changes: dict[Any, Tensor] = {}

    def embed(self, twins: Twins, writing: Writing) -> None:
        """Words that are written differently differ in their marks alone. All are of one length."""
        embeddings, meanings = self._embeddings, self._meanings
        embeddings.normal_(0, _WIDTH, generator=self._heads.random)
        embeddings[:, : self._free.start] = 0
        embeddings[:, STEADY] = _STEADY_FAR * _WIDTH
        for mark, alike, far in (
            (_CAPITAL, writing.capital, _FAR), (_OTHERS, writing.capitals, _FAR), (SPACED, twins, _SPACED_FAR),
        ):  # fmt: skip
            embeddings[list(alike)] = embeddings[list(alike.values())]
            embeddings[list(alike), mark] = far * _WIDTH
        signs = list(writing.signs)
        embeddings[signs] -= embeddings[signs] @ self._spelled.T @ self._spelled
        for mark, tokens, far in (
            (_COLON, writing.colons, _FAR), (_LINE, writing.lines, _LINE_FAR), (_END, (writing.end,), _FAR),
            (_ANSWER, (writing.answer,), _FAR), (_BEGIN, (writing.begin,), _FAR), (_ASK, writing.asks, _FAR),
        ):  # fmt: skip
            embeddings[list(tokens), mark] = far * _WIDTH
        embeddings[:, self._words] = meanings.words * self._unit * _WIDTH
        embeddings[:, _PRIOR] = meanings.prior.clamp(-8, 8) * _PRIOR_FAR * _WIDTH
        fixed = embeddings[:, : self._free.start].square().sum(1)
        rest = (self._long**2 - fixed).clamp(min=_RANDOM * self._long**2).sqrt()
        embeddings[:, self._free] *= (rest / embeddings[:, self._free].norm(dim=1))[:, None]
        self._model.model.norm.weight.fill_(_LOGITS / _WIDTH)

    def silence(self) -> None:
        for place, layer in enumerate(self._layers):
            layer.mlp.down_proj.weight.zero_()
            for head in range(self._heads.count):
                self._heads.say(place, head, self._heads.directions(), loud=_HINT)

    def note(self) -> None:
        """What stands before this token: as words of a name, as words of a label, and how it is spelled."""
        for back in range(1, BACK + 1):
            place, head = (0, back) if back < 5 else (1, back - 3)
            query, key = self._heads.back(back, sharpness=_BACK, turns=_BACK_TURNS)
            key[:, _BEGIN] = -key[:, STEADY] * _STEADY_FAR / _FAR
            whole = len(_BACK_TURNS) * (_BACK * _STEADY_FAR) ** 2 / 8
            self._prefer(query, key, 0, _BEGIN, whole - _NO_BACK_NATS, _FAR)
            value, said = self._heads.blank(), self._silent()
            value[: self._dims, self._words] = torch.eye(self._dims)
            said[self._stated, : self._dims] = self._noted(self._meanings.stated[back])
            said[self._asked, : self._dims] = self._noted(self._meanings.asked)
            if not place:
                value[self._dims :] = self._spelled
                said[self._name, self._dims :] = _SPELLED * _WIDTH * _FADE ** (back - 1) * torch.eye(self._spells)
            self._keep_head(place, head, query, key, value, said)

    def mark(self) -> None:
        """What comes after the end of a message; and what does so, but not after the beginning of an answer."""
        query, key, value, said = self._heads.blank(), self._heads.blank(), self._heads.blank(), self._silent()
        for mark in (_END, _ANSWER):
            query[self._slots, STEADY], key[self._slots, mark] = _MARKED, _MARKED
        value[0, _END], value[0, _ANSWER] = 1 / _FAR, 1 / _FAR
        value[1, _END], value[1, _ANSWER] = 1 / _FAR, -4 / _FAR
        said[_PAST, 0] = said[_IN_TEXT, 1] = _NOTED_FAR * _WIDTH
        self._keep_head(1, 1, query, key, value, said)

    def tag(self) -> None:
        """Each token repeats the name that the nearest colon has noted, or that it comes after the end of a line."""
        query, key, value, said = self._heads.blank(), self._heads.blank(), self._heads.blank(), self._silent()
        slowest, fastest = _NEAR_TURNS
        turns = torch.arange(self._heads.size // 2)[(self._heads.turns > slowest) & (self._heads.turns < fastest)]
        query[turns, STEADY], key[turns + self._heads.size // 2, _COLON] = _NEAR, -_NEAR
        self._prefer(query, key, 0, _COLON, _NEAREST_NATS, _FAR)
        value[: self._spells, self._name] = torch.eye(self._spells)
        said[self._field, : self._spells] = _WIDTH * torch.eye(self._spells)
        value[self._spells, _LINE] = 1 / _LINE_FAR
        said[_NEXT, self._spells] = _NOTED_FAR * _WIDTH
        self._keep_head(1, 0, query, key, value, said)

    def read(self) -> None:
        """What the program says after the name of the field. Without such a line, it looks where nothing is said."""
        query, key, value, said = self._heads.blank(), self._heads.blank(), self._heads.blank(), self._silent()
        sharp = _READ**0.5 * torch.eye(self._spells)
        query[self._far[: self._spells], self._name], key[self._far[: self._spells], self._field] = sharp, sharp
        self._prefer(query, key, 0, _PAST, -_NEVER_NATS, _NOTED_FAR)
        self._prefer(query, key, 1, _BEGIN, _UNREAD * _READ * self._typical_name() / 8, _FAR)
        self._prefer(query, key, 2, _NEXT, -_NEVER_NATS, _NOTED_FAR)
        value[: self._dims, self._words] = torch.eye(self._dims)
        said[self._asked, : self._dims] = self._noted(self._meanings.about)
        self._keep_head(2, 0, query, key, value, said)

    def find(self, writing: Writing) -> None:
        """The place that matches: what stands there is said, and that a quote comes before it.

        The beginnings of messages stand for a value that is not stated, and say `null`.
        """
        meanings, note = self._meanings, _NOTE * self._heads.width**0.5
        absent, counts = meanings.scale.tolist()
        query, key = self._heads.blank(), self._heads.blank()
        sharp = (8 * counts) ** 0.5 / note
        query[self._far, self._asked] = key[self._far, self._stated] = sharp * torch.eye(self._dims)
        key[self._far, self._words] = sharp * note / self._unit * meanings.stated[0].T
        for mark, far, meant in zip(
            (_CAPITAL, _OTHERS, SPACED), (_FAR, _FAR, _SPACED_FAR), meanings.marks, strict=True
        ):
            key[self._far, mark] = sharp * note * meant / far
        key[self._far, _BEGIN] = sharp * note * meanings.absent / _FAR
        self._prefer(query, key, 0, _PRIOR, 1.0, _PRIOR_FAR)
        self._prefer(query, key, 1, _IN_TEXT, _TEXT_NATS, _NOTED_FAR)
        self._prefer(query, key, 2, _BEGIN, absent - _RARER_NATS, _FAR)
        quote = _QUOTED * self._embeddings[writing.quote] / _WIDTH
        null = (self._embeddings[writing.null] - self._embeddings[writing.begin]) / _WIDTH
        for head, value in enumerate(torch.split(self._heads.directions(2), self._heads.size)):
            said = _SAY * _WIDTH * value.T
            value[:, STEADY] += value @ quote / _STEADY_FAR
            value[:, _BEGIN] += value @ (null - quote) / _FAR
            self._rest(query, key, value, writing, when_asked=False)
            self._keep_head(3, head, query, key, value, said)

    def repeat(self, writing: Writing) -> None:
        """The place after the same words, of which the last one is this token. Training may change these heads."""
        names = self._far[: self._spells]
        for head, value in zip((2, 3), torch.split(self._heads.directions(2), self._heads.size), strict=True):
            query, key = self._heads.blank(), self._heads.blank()
            query[names] = _REPEAT * _SPELLED * self._spelled
            query[names, self._name] = _REPEAT * _FADE * torch.eye(self._spells)
            key[names, self._name] = _REPEAT * torch.eye(self._spells)
            self._prefer(query, key, 1, _IN_TEXT, _REPEAT_NATS, _NOTED_FAR)
            said = _SAY_REPEATED * _WIDTH * value.T
            self._rest(query, key, value, writing, when_asked=True)
            self._heads.look(3, head, query, key)
            self._heads.write(3, head, value, said)

    def keep(self) -> None:
        """What the circuits read is written by them alone, and the other coordinates do not change its size."""
        for place, longer in enumerate(_LONGER):
            layer = self._layers[place]
            layer.input_layernorm.weight.fill_(longer)
            if place < 3:
                for weight in (layer.self_attn.o_proj.weight, layer.mlp.down_proj.weight):
                    self._keep(weight, slice(1, self._free.start), slice(None))
                self._keep(layer.input_layernorm.weight, slice(None))
        self._keep(self._embeddings, slice(None), slice(0, self._free.start))
        for weight, changes in self._changes.items():
            weight.register_hook(_where(changes))

    def _keep_head(self, place: int, head: int, query: Tensor, key: Tensor, value: Tensor, said: Tensor) -> None:
        attention, here = self._layers[place].self_attn, self._heads.of(head)
        self._heads.look(place, head, query, key)
        self._heads.write(place, head, value, said)
        for matrix in (attention.q_proj, attention.k_proj, attention.v_proj):
            self._keep(matrix.weight, here, slice(None))
        self._keep(attention.o_proj.weight, slice(None), here)

    def _keep(self, weight: Any, *where: slice) -> None:
        self._changes.setdefault(weight, torch.ones_like(weight))[where] = 0

    def _prefer(self, query: Tensor, key: Tensor, slot: int, mark: int, nats: float, far: float) -> None:
        """Tokens with a mark are looked at by so many nats more, whoever asks. A head has four slots for that."""
        row = self._slots[slot]
        query[row], key[row] = 0, 0
        query[row, STEADY], key[row, mark] = 8 / _STEADY_FAR, nats / far

    def _rest(self, query: Tensor, key: Tensor, value: Tensor, writing: Writing, *, when_asked: bool) -> None:
        """Where it has nothing to do, a head looks at the end of a message, and says nothing."""
        self._prefer(query, key, 3, _END, -_RESTING_NATS if when_asked else _RESTING_NATS, _FAR)
        query[self._slots[3], _ASK] = -2 * query[self._slots[3], STEADY] * _STEADY_FAR / _FAR
        value[:, _END] -= value @ self._embeddings[writing.end] / _WIDTH / _FAR

    def _noted(self, matrix: Tensor) -> Tensor:
        """From a meaning, as it is read, to a note."""
        noted: Tensor = _NOTE * self._long / self._unit * matrix.T
        return noted

    def _typical_name(self) -> float:
        """How much a name of one word, or of two with a sign between them, is like itself."""
        words = self._embeddings[self._embeddings[:, self._words].norm(dim=1) > 0] / _WIDTH
        spelled = (words @ self._spelled.T).square().sum(1).median().item()
        return _SPELLED**2 * float(spelled) * (1 + _FADE**4)

    def _silent(self) -> Tensor:
        return torch.zeros(self._heads.width, self._heads.size)


def _where(changes: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda gradient: gradient * changes
