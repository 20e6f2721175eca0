"""How the time of a document grows: with fields, lengths, the prompt, requests at once, the vocabulary, the program.

    python -m benchmarks.rivals.growth [--model smollm2] [--seconds 200]

Prints JSON: for each quantity its points (value, processor seconds) by series.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeAlias

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import pastalang
from benchmarks.rivals.sides.ours import GREEDY, program_of
from benchmarks.rivals.tasks import Document, Schema, record, text, whole
from benchmarks.subjects import make_model, make_tokenizer

Points: TypeAlias = list[tuple[float, float]]
CURVES: Final = 6

_TEXT: Final = (
    "the parcel left the harbour early and came back with a note that nobody in the office could read because it was "
    "written on both sides of a wet sheet of paper"
)
_INSTRUCTIONS: Final = "You read a text and answer with a JSON object."
_ROUNDS: Final = 2
_LONG: Final = 1.0  # seconds that need not be measured twice


def prose(tokens: int, chance: Random) -> str:
    """A text of about so many tokens: common words, one token each."""
    words = _TEXT.split()
    return " ".join(chance.choice(words) for _ in range(tokens))


def fields(count: int, schema: Schema) -> Schema:
    return record(**{f"field_{number}": schema for number in range(count)})


class Growth:
    """`seconds`: of the processor, for all curves. A curve that has used its part ends early, after two points."""

    def __init__(self, engine: pastalang.Engine, *, seconds: float) -> None:
        self._engine, self._seconds, self._chance = engine, seconds / CURVES, Random(0)

    def curve(self, values: Sequence[int], measure: Callable[[int], float], share: float = 1.0) -> Points:
        """Each point is taken to cost about as much as all before it."""
        began, found = time.process_time(), Points()
        for value in values:
            if len(found) >= 2 and time.process_time() - began > share * self._seconds / 2:
                break
            found.append((value, measure(value)))
        return found

    def seconds(self, schema: Schema, prompt: int, mode: str = "strict") -> float:
        """Of one document, after a short one for which the masks are made; the better of two if that takes no time."""
        found: list[float] = []
        for tokens in (8, prompt, prompt):
            program, inputs = program_of(Document("", _INSTRUCTIONS, prose(tokens, self._chance), schema))
            plan = self._engine.plan(program, mode=pastalang.Mode(mode))
            found.append(_timed(lambda plan=plan, inputs=inputs: self._run(plan, inputs)))
            if len(found) == 2 and found[1] > _LONG:
                break
        return min(found[1:])

    def _run(self, plan: Any, inputs: Any) -> None:
        self._engine.run(plan, dict(inputs), sampling=GREEDY, on_truncated="keep", any_mode=True)

    # ── what is varied ───────────────────────────────────────────────────────────────────────────────────

    def by_fields(self) -> dict[str, Points]:
        def seconds(count: int, mode: str) -> float:
            return self.seconds(fields(count, text(24, least=24)), 250, mode)

        return {
            "in parallel": self.curve((1, 2, 4, 8, 16, 32, 64, 128), lambda count: seconds(count, "strict"), 1.5),
            "one after another": self.curve((1, 4, 16), lambda count: seconds(count, "sequential"), 0.5),
        }

    def by_length(self) -> dict[str, Points]:
        """Twelve strings. A token of English text has about four characters."""

        def seconds(tokens: int) -> float:
            return self.seconds(fields(12, text(4 * tokens, least=4 * tokens)), 250)

        return {"in parallel": self.curve((4, 8, 16, 32, 64), seconds)}

    def by_prompt(self) -> dict[str, Points]:
        schema = fields(12, {"type": "boolean"})
        return {"in parallel": self.curve((128, 256, 512, 1024, 2048, 4096), lambda n: self.seconds(schema, n))}

    def by_requests(self) -> dict[str, Points]:
        """Seconds of a document among so many at once: eight fields of two digits, a prompt of 64 tokens."""
        schema = fields(8, whole(10, 99))

        def seconds(count: int) -> float:
            program, _ = program_of(Document("", _INSTRUCTIONS, "", schema))
            total = max(8, count)
            texts = [prose(64, self._chance) for _ in range(total)]
            inputs = [dict(program_of(Document("", _INSTRUCTIONS, one, schema))[1]) for one in texts]
            return _timed(lambda: self._map(program, inputs, count)) / total

        return {"a document": self.curve((1, 2, 4, 8, 16, 32, 64), seconds)}

    def _map(self, program: Any, inputs: Any, count: int) -> None:
        for _ in self._engine.map(program, inputs, in_flight=count, sampling=GREEDY):
            pass

    def by_program(self) -> dict[str, Points]:
        """A program of so many fields, read, checked and planned; no model is asked."""

        def seconds(count: int) -> float:
            return min(_timed(lambda: _planned(_source(count))) for _ in range(_ROUNDS))

        return {"read, checked and planned": self.curve((8, 32, 128, 512), seconds)}

    def by_vocabulary(self) -> dict[str, Points]:
        """Random weights of two layers: in a pass of twelve values, the head, the masks and the draws grow."""
        return {"a pass": self.curve((8_192, 16_384, 32_768, 65_536, 131_072), _pass_of)}


def _source(count: int) -> str:
    body = "\n".join(f"  field_{number}: string(max=12)" for number in range(count))
    return f'template record(text: text)\n\nuser """\n{{text}}\n"""\n\nassistant json {{\n{body}\n}}\n'


def _planned(source: str) -> None:
    program = pastalang.compile(source)
    pastalang.build_plan(program.templates["record"], program)


def _pass_of(vocabulary: int) -> float:
    weights = make_model(dtype=torch.float32, layers=2, vocabulary=vocabulary)
    engine = pastalang.Engine.load((weights, larger_tokenizer(vocabulary)), device="cpu")
    program, inputs = program_of(Document("", _INSTRUCTIONS, "A note.", fields(12, text(48, least=48))))
    found = []
    for _ in range(_ROUNDS + 1):
        passes, run = [0], lambda: engine.run(program, dict(inputs), sampling=GREEDY, on_truncated="keep")
        seconds = _timed(lambda run=run, passes=passes: passes.append(run().usage.forward_passes))
        found.append(seconds / passes[-1])
    return min(found[1:])


def larger_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """The trained one, and made-up words after its own, up to so many tokens."""
    chance, small = Random(0), json.loads(make_tokenizer().backend_tokenizer.to_str())["model"]
    tokens: dict[str, int] = dict(small["vocab"])
    while len(tokens) < vocabulary:
        word = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(chance.randrange(4, 10)))
        tokens.setdefault(chance.choice(("Ġ", "")) + word, len(tokens))
    merges = [tuple(one) if isinstance(one, list) else tuple(one.split(" ")) for one in small["merges"]]
    backend = Tokenizer(models.BPE(vocab=tokens, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>", pad_token="<end>")


def _timed(act: Callable[[], Any]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--seconds", type=float, default=200.0, help="of the processor, about; 0: two points of each")
    given = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):
        engine = pastalang.Engine.load(given.model, adapter=None, device="cpu", dtype="float32", cells=16_384)
        growth, found = Growth(engine, seconds=given.seconds), {}
        for name, measured in (
            ("fields", growth.by_fields), ("length", growth.by_length), ("prompt", growth.by_prompt),
            ("requests", growth.by_requests), ("vocabulary", growth.by_vocabulary), ("program", growth.by_program),
        ):  # fmt: skip
            found[name] = measured()
            print(f"{name}: {time.process_time():.0f} s of the processor so far", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
