"""`generate` of transformers: alone, with its options, and under the constraints of other libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache
from transformers.utils import logging

from benchmarks.rivals.side import CAP, InProcess, Setup, Written
from benchmarks.rivals.tasks import Document, Schema, compact


class _Loaded(InProcess):
    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.threads)
        logging.set_verbosity_error()
        self.setup = setup
        self.options = {name: value for name, value in setup.options.items() if name != "dtype"}
        dtype = getattr(torch, setup.options.get("dtype", "float32"))
        self.tokenizer: Any = AutoTokenizer.from_pretrained(setup.weights, padding_side="left")
        self.model: Any = AutoModelForCausalLM.from_pretrained(setup.weights, dtype=dtype).eval()
        self.end = self.tokenizer.eos_token_id
        if self.tokenizer.pad_token_id is None:
            self.tokenizer.pad_token_id = self.end
        self.passes = 0
        self.model.register_forward_pre_hook(self._count)

    def _count(self, *_: object) -> None:
        self.passes += 1

    def prompt(self, document: Document, begin: str = "") -> str:
        text: str = self.tokenizer.apply_chat_template(document.messages, tokenize=False, add_generation_prompt=True)
        return text + begin

    @torch.inference_mode()
    def generate(self, prompts: Sequence[str], **options: Any) -> list[Written]:
        """Greedy. Each answer ends with its first end of turn."""
        self.passes = 0
        given = self.tokenizer(list(prompts), return_tensors="pt", padding=True, add_special_tokens=False)
        found = self.model.generate(**given, do_sample=False, pad_token_id=self.tokenizer.pad_token_id, **options)
        rows = [self._without_end(row) for row in found[:, given["input_ids"].shape[1] :].tolist()]
        texts = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return [Written(text, len(row), self.passes) for text, row in zip(texts, rows, strict=True)]

    def _without_end(self, row: list[int]) -> list[int]:
        ends = {self.end, self.tokenizer.pad_token_id}
        return row[: next((at for at, token in enumerate(row) if token in ends), len(row))]


def in_groups(documents: Sequence[Document], size: int) -> Iterator[list[Document]]:
    for start in range(0, len(documents), size):
        yield list(documents[start : start + size])


class Generate(_Loaded):
    """Follows no schema and writes exactly as many tokens as it is given. `options` go to `generate`."""

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        found: list[Written] = []
        for group in in_groups(documents, at_once):
            length = max(lengths[len(found) : len(found) + len(group)])
            found += self.generate(
                [self.prompt(one) for one in group], max_new_tokens=length, min_new_tokens=length,
                **self.options,
            )  # fmt: skip
        return found


class XGrammar(_Loaded):
    """Its masks as a logits processor. A batch has a grammar for each row."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        import xgrammar
        from xgrammar.contrib import hf

        about = xgrammar.TokenizerInfo.from_huggingface(self.tokenizer, vocab_size=self.model.config.vocab_size)
        self._compiler = xgrammar.GrammarCompiler(about, max_threads=setup.threads)
        self._processor: Callable[[Any], Any] = hf.LogitsProcessor

    def grammar(self, schema: Schema) -> Any:
        return self._compiler.compile_json_schema(compact(schema), any_whitespace=False, separators=(",", ":"))

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        found: list[Written] = []
        for group in in_groups(documents, at_once):
            masks = self._processor([self.grammar(one.schema) for one in group])
            found += self.generate([self.prompt(one) for one in group], logits_processor=[masks], max_new_tokens=CAP)
        return found


class PromptForEachField(XGrammar):
    """One prompt for each field, in one batch, with the type of the field as its constraint."""

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        return [self._record(document) for document in documents]

    def _record(self, document: Document) -> Written:
        fields: dict[str, Schema] = document.schema["properties"]
        masks = self._processor([self.grammar(schema) for schema in fields.values()])
        prompts = [self.prompt(document, f'{{"{name}":') for name in fields]
        values = self.generate(prompts, logits_processor=[masks], max_new_tokens=CAP)
        body = ",".join(f'"{name}":{one.text}' for name, one in zip(fields, values, strict=True))
        return Written(f"{{{body}}}", sum(one.tokens or 0 for one in values), values[0].passes)


class Outlines(_Loaded):
    """`outlines.Generator`, made once for each type."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        import outlines

        self._outlines = outlines
        self._wrapped = outlines.from_transformers(self.model, self.tokenizer)
        self._generators: dict[str, Any] = {}

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        return [self._one(document) for document in documents]

    def _one(self, document: Document) -> Written:
        key = compact(document.schema)
        if key not in self._generators:
            type = self._outlines.types.JsonSchema(key, whitespace_pattern="")
            self._generators[key] = self._outlines.Generator(self._wrapped, type)
        self.passes = 0
        text = self._generators[key](self.prompt(document), max_new_tokens=CAP, do_sample=False)
        return Written(text, self.passes, self.passes)


_crop = DynamicCache.crop


def _cropped(cache: Any, length: int) -> None:
    """guidance says how many tokens stay, as it was done; newer versions of transformers take how many go."""
    _crop(cache, length - cache.get_seq_length() if length > 0 else length)


class Guidance(_Loaded):
    """`guidance.json`, which feeds the tokens that its grammar forces."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        import guidance

        DynamicCache.crop = _cropped  # type: ignore[method-assign]
        self._guidance = guidance
        self._wrapped = guidance.models.Transformers(self.model, self.tokenizer, echo=False, enable_monitoring=False)

    def answer(self, documents: Sequence[Document], lengths: Sequence[int], at_once: int) -> list[Written]:
        return [self._one(document) for document in documents]

    def _one(self, document: Document) -> Written:
        self.passes = 0
        asked = self._guidance.json(name="answer", schema=document.schema, temperature=0.0, separators=(",", ":"))
        text = (self._wrapped + self.prompt(document) + asked)["answer"]
        return Written(text, len(self.tokenizer(text, add_special_tokens=False)["input_ids"]), self.passes)
