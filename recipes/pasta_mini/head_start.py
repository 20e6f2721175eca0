"""What a fresh model can do before any training: circuits among its weights that repeat text.

    first layer     one head looks one place back and notes which token stands there
    second layer    two heads look for the places after earlier occurrences of this token, and say what stands there
    other heads     say what they look at, and have to learn where to look

Transformers find such circuits by themselves, after billions of tokens of text. A small model that extracts values
needs them before anything else, so it starts with them; training is free to change every weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from recipes.pasta_mini.tokenizer import Twins

STEADY, SPACED = 0, 1  # the coordinates that all tokens share, and those after a space
_WIDTH = 0.05  # of the embeddings
_FAR = {STEADY: 4.0, SPACED: 2.0}  # how far they stand out, in widths
_SHARPNESS = 2.0  # of the head that looks one place back
_MATCH = 2.5  # of the heads that look for a token
_NOTE, _SAY, _HINT = 0.1, 1.0, 0.1  # how loud: notes, what is looked for, what other heads look at
_REPEATING = (0, 1)  # the heads of the second layer
_SLOW = 0.005  # a turn for each place that does not keep tokens that are far apart from being compared


@torch.no_grad()
def give_head_start(model: Any, *, seed: int, twins: Twins) -> None:
    """For models of Llama's shape with as many key heads as heads and tied embeddings."""
    embeddings = model.get_input_embeddings().weight
    random = torch.Generator().manual_seed(seed)
    embeddings.normal_(0, _WIDTH, generator=random)
    embeddings[:, STEADY] = _FAR[STEADY] * _WIDTH
    embeddings[list(twins)] = embeddings[list(twins.values())]
    embeddings[list(twins), SPACED] = _FAR[SPACED] * _WIDTH
    heads = Heads(model, slice(0, model.config.hidden_size), random)
    for place in range(len(model.model.layers)):
        for head in range(heads.count):
            heads.say(place, head, heads.directions(), loud=_HINT)
    note, noted = heads.directions(), heads.directions()
    query, key = heads.back(1, sharpness=_SHARPNESS, turns=range(heads.size // 4))
    heads.look(0, 0, query, key)
    heads.write(0, 0, note, _NOTE * noted.T)
    for head in _REPEATING:
        heads.look(1, head, *heads.alike(note, noted, sharpness=_MATCH))
        heads.say(1, head, heads.directions(), loud=_SAY)


class Heads:
    """Writes the weights of single heads. `free` are the coordinates that random directions lie in."""

    def __init__(self, model: Any, free: slice, random: torch.Generator) -> None:
        config = model.config
        assert config.num_key_value_heads == config.num_attention_heads and config.tie_word_embeddings
        self.count, self.width = config.num_attention_heads, config.hidden_size
        self.size = self.width // self.count
        self._layers, self._free, self.random = model.model.layers, free, random
        places = torch.arange(self.size // 2)
        self.turns = float(config.rope_parameters["rope_theta"]) ** -(places * 2 / self.size)

    def look(self, place: int, head: int, query: Tensor, key: Tensor) -> None:
        attention, here = self._layers[place].self_attn, self.of(head)
        attention.q_proj.weight[here], attention.k_proj.weight[here] = query, key

    def write(self, place: int, head: int, value: Tensor, said: Tensor) -> None:
        attention, here = self._layers[place].self_attn, self.of(head)
        attention.v_proj.weight[here], attention.o_proj.weight[:, here] = value, said

    def say(self, place: int, head: int, seen: Tensor, *, loud: float) -> None:
        """It adds what it looks at, as far as `seen` shows it."""
        self.write(place, head, seen, loud * seen.T)

    def of(self, head: int) -> slice:
        return slice(head * self.size, (head + 1) * self.size)

    def blank(self) -> Tensor:
        return torch.zeros(self.size, self.width)

    def directions(self, heads: int = 1) -> Tensor:
        """At right angles to one another and to the shared coordinate, as many as so many heads can see."""
        drawn = torch.randn(self.width, heads * self.size, generator=self.random)
        drawn[: self._free.start], drawn[STEADY] = 0, 0
        turned: Tensor = torch.linalg.qr(drawn).Q.T
        return turned

    def back(self, places: int, *, sharpness: float, turns: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Turned by some places, the shared coordinate meets itself there; fast turns tell it from other places."""
        query, key, fast = self.blank(), self.blank(), torch.tensor(turns)
        query[fast, STEADY] = sharpness
        key[fast, STEADY] = sharpness * (places * self.turns[fast]).cos()
        key[fast + self.size // 2, STEADY] = sharpness * (places * self.turns[fast]).sin()
        return query, key

    def alike(self, asked: Tensor, kept: Tensor, *, sharpness: float) -> tuple[Tensor, Tensor]:
        """What a token asks for matches what another one has noted; slow turns keep that at any distance."""
        query, key = self.blank(), self.blank()
        slow = torch.arange(self.size // 2)[self.turns < _SLOW]
        places = torch.cat((slow, slow + self.size // 2))
        query[places], key[places] = sharpness * asked[places], sharpness * kept[places]
        return query, key
