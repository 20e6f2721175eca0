"""What a fresh model can do before any training: circuits among its random weights.

    first layer     one head looks one place back and notes which token stands there, in directions of its own
                    four look one to four places back and note which words stand there
    second layer    two heads look for the places after earlier occurrences of this token, and say what stands there
                    two look for the place that the same words lead to, and say what stands there
    other layers    heads say what they look at, and have to learn where to look

Transformers find these circuits by themselves, after billions of tokens of text. A small model that extracts values
needs them before anything else, so it starts with them; training is free to change every weight.

    Due date: 3 May 2026        "due_date": "
              ^ is looked at                ^ looks for what follows `due` and `date`

Words have to be alike for that, however they are written: `due`, ` due`, `Due` and `DUE` begin with one embedding, but
for directions that all tokens with a space or with capitals share. Signs are no words, and are not looked at;
nor are the names of types in a prompt.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pastalang.training.errors import BadData
from recipes.pasta_mini.tokenizer import Twins, Writing

_STEADY, _SPACED, _CAPITAL, _OTHERS, _SIGN = range(5)  # the coordinates with a meaning
_WIDTH = 0.05  # of the embeddings
_FAR = {_STEADY: 4.0, _SPACED: 2.0, _CAPITAL: 6.0, _OTHERS: 6.0, _SIGN: 6.0}  # how far they stand out, in widths
_SHARPNESS = 2.0  # of the heads that look some places back
_MATCH = 2.5  # of the heads that look for a token or for words
_AVOID = 6.5  # how much the latter keep from looking at signs
_NOTE, _SAY, _HINT = 0.1, 1.0, 0.1  # how loud: notes, what is looked for, what other heads look at
_REPEATING = (0, 1)  # the heads of the second layer
_LABELLED = (2, 3)
_BACK = 4  # words before this token that are noted
_FADE = 0.7  # how much less each of them counts than the one after it


@torch.no_grad()
def give_head_start(model: Any, *, seed: int, twins: Twins, writing: Writing | None = None) -> None:
    """For models of Llama's shape with as many key heads as heads and tied embeddings.

    Without `writing`, there are no circuits for labels.
    """
    config = model.config
    assert config.num_key_value_heads == config.num_attention_heads and config.tie_word_embeddings
    random = torch.Generator().manual_seed(seed)
    start = _Start(model, random)
    start.embed(twins, writing)
    start.hint()
    start.repeat()
    if writing is not None:
        start.follow_labels(list(writing.signs), list(writing.types))


class _Start:
    def __init__(self, model: Any, random: torch.Generator) -> None:
        config = model.config
        self._embeddings = model.get_input_embeddings().weight
        self._layers, self._random = model.model.layers, random
        self._heads, self._width = config.num_attention_heads, config.hidden_size
        self._size = self._width // self._heads
        places = torch.arange(self._size // 2)
        self._turns = float(config.rope_parameters["rope_theta"]) ** -(places * 2 / self._size)
        self._noted = torch.empty(0)  # where the first head notes the token before this one

    def embed(self, twins: Twins, writing: Writing | None) -> None:
        embeddings = self._embeddings
        embeddings.normal_(0, _WIDTH, generator=self._random)
        embeddings[:, _STEADY] = _FAR[_STEADY] * _WIDTH
        capitals = {} if writing is None else {_CAPITAL: writing.capital, _OTHERS: writing.capitals}
        for coordinate, alike in (*capitals.items(), (_SPACED, twins)):
            embeddings[list(alike)] = embeddings[list(alike.values())]
            embeddings[list(alike), coordinate] = _FAR[coordinate] * _WIDTH

    def hint(self) -> None:
        for layer in self._layers:
            for head in range(self._heads):
                self._say(layer, head, loud=_HINT)

    def repeat(self) -> None:
        first, second = self._layers[0].self_attn, self._layers[1].self_attn
        note, self._noted = self._directions(), self._directions()
        self._look_back(0, 1, note)
        first.o_proj.weight[:, self._of(0)] = _NOTE * self._noted.T
        for head in _REPEATING:
            query, key = self._matching(note, self._noted)
            second.q_proj.weight[self._of(head)], second.k_proj.weight[self._of(head)] = query, key
            self._say(self._layers[1], head, loud=_SAY)

    def follow_labels(self, signs: list[int], types: list[int]) -> None:
        """A value follows its label at once, or after a sign. An asking token stands at the sign, or after it."""
        if self._heads <= _BACK:
            raise BadData(f"this head start takes {_BACK + 1} heads or more, not {self._heads}")
        at_sign, after_sign = self._free_directions()
        words = self._directions()
        words[:, _SPACED : _SIGN + 1] = 0
        self._set_apart(signs, types, words)
        first, second = self._layers[0].self_attn, self._layers[1].self_attn
        for back in range(1, _BACK + 1):
            self._look_back(back, back, words)
            noted = _FADE ** (back - 1) * at_sign.T
            if back > 1:
                noted = noted + _FADE ** (back - 2) * after_sign.T
            first.o_proj.weight[:, self._of(back)] = _NOTE * noted
        for head, asked in zip(_LABELLED, (after_sign, at_sign), strict=True):
            query, key = self._matching(asked, after_sign)
            slowest = self._size // 2 - 1
            query[slowest], key[slowest] = 0, 0
            query[slowest, _STEADY], key[slowest, _SIGN] = -_AVOID, _AVOID
            second.q_proj.weight[self._of(head)], second.k_proj.weight[self._of(head)] = query, key
            self._say(self._layers[1], head, loud=_SAY)

    def _free_directions(self) -> tuple[Tensor, Tensor]:
        """Two sets that nothing else of the first layer writes to."""
        meant = torch.eye(self._width)[: _SIGN + 1]
        drawn = torch.randn(self._width, 2 * self._size, generator=self._random)
        free = torch.linalg.qr(torch.cat((meant.T, self._noted.T, drawn), dim=1)).Q.T[-2 * self._size :]
        self._embeddings -= self._embeddings @ free.T @ free
        kept = torch.cat((free, meant))
        layer = self._layers[0]
        for matrix in (layer.mlp.down_proj.weight, layer.self_attn.o_proj.weight):
            matrix -= kept.T @ (kept @ matrix)
        return free[: self._size], free[self._size :]

    def _set_apart(self, signs: list[int], types: list[int], words: Tensor) -> None:
        """Signs have no part in the directions of words. All embeddings are of one length: no head prefers any."""
        embeddings = self._embeddings
        embeddings[signs] -= embeddings[signs] @ torch.linalg.pinv(words) @ words
        embeddings[:, _SIGN] = 0
        embeddings[signs + types, _SIGN] = _FAR[_SIGN] * _WIDTH
        others, meant = embeddings[:, _SIGN + 1 :], embeddings[:, : _SIGN + 1].square().sum(1)
        whole = max(_WIDTH**2 * self._width, 2 * meant.max().item())
        others *= ((whole - meant).sqrt() / others.norm(dim=1))[:, None]

    def _look_back(self, head: int, places: int, note: Tensor) -> None:
        """Turned by some places, the shared coordinate meets itself there; fast turns tell it from other places."""
        attention, here = self._layers[0].self_attn, self._of(head)
        query, key = torch.zeros(self._size, self._width), torch.zeros(self._size, self._width)
        fast = torch.arange(self._size // 4)
        query[fast, _STEADY] = _SHARPNESS
        key[fast, _STEADY] = _SHARPNESS * (places * self._turns[fast]).cos()
        key[fast + self._size // 2, _STEADY] = _SHARPNESS * (places * self._turns[fast]).sin()
        attention.q_proj.weight[here], attention.k_proj.weight[here] = query, key
        attention.v_proj.weight[here] = note

    def _matching(self, asked: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
        """What a token asks for matches what another one has noted; slow turns keep that at any distance."""
        query, key = torch.zeros(self._size, self._width), torch.zeros(self._size, self._width)
        slow = torch.arange(self._size // 2)[self._turns < 0.005]
        places = torch.cat((slow, slow + self._size // 2))
        query[places], key[places] = _MATCH * asked[places], _MATCH * kept[places]
        return query, key

    def _say(self, layer: Any, head: int, *, loud: float) -> None:
        seen, here = self._directions(), self._of(head)
        layer.self_attn.v_proj.weight[here], layer.self_attn.o_proj.weight[:, here] = seen, loud * seen.T

    def _of(self, head: int) -> slice:
        return slice(head * self._size, (head + 1) * self._size)

    def _directions(self) -> Tensor:
        """At right angles to one another and to the shared coordinate."""
        drawn = torch.randn(self._width, self._size, generator=self._random)
        drawn[_STEADY] = 0
        turned: Tensor = torch.linalg.qr(drawn).Q.T
        return turned
