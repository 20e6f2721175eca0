"""The servers that can be asked, and how each spells a request for one value.

vLLM        /v1/completions     raw prompt, `structured_outputs`, logprobs
SGLang      /generate           raw prompt, regex / json_schema, logprobs
llama.cpp   /completion         raw prompt, json_schema / grammar, probabilities
openai      /v1/chat/completions   whole answers only: messages and a JSON schema
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final

from pastalang.hosts.constraints import (
    Constraint,
    Free,
    Options,
    Pattern,
    Schema,
    options_grammar,
    options_regex,
    pattern_grammar,
)
from pastalang.hosts.errors import HostError, Unsupported
from pastalang.hosts.transport import Patience, Transport
from pastalang.program.types import Sampling


class Kind(Enum):
    """What answers at an address."""

    VLLM = "vllm"
    SGLANG = "sglang"
    LLAMA_CPP = "llama.cpp"
    OPENAI = "openai"  # and everything that speaks like it: Ollama, hosted models, `pasta serve`

    @property
    def takes_raw_prompts(self) -> bool:
        """True if a value can be asked for alone, behind exactly the text that it sees."""
        return self is not Kind.OPENAI


@dataclass(frozen=True, slots=True)
class Ask:
    """One value: the text before it, what it has to be, and how it is drawn."""

    prompt: str
    constraint: Constraint
    max_tokens: int
    sampling: Sampling
    seed: int


@dataclass(frozen=True, slots=True)
class Reply:
    """`log_probability` is None where the server gives none. `was_cut`: the limit has ended the text."""

    text: str
    tokens: int
    log_probability: float | None
    was_cut: bool
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Server(ABC):
    """One kind of server that takes raw prompts."""

    path: ClassVar[str]

    def __init__(self, transport: Transport, model: str) -> None:
        self.transport = transport
        self.model = model

    async def ask(self, ask: Ask, *, end: float | None) -> Reply:
        """Raises `HostError`, also for an answer that is not of the server's documented shape."""
        answer = await self.transport.post(self.path, self.body(ask), end=end)
        try:
            return self.reply(answer)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as problem:
            shown = json.dumps(answer, ensure_ascii=False)[:200]
            raise HostError(f"{self.transport.url}{self.path} answered in an unknown shape: {shown}") from problem

    @abstractmethod
    def body(self, ask: Ask) -> dict[str, Any]:
        """The request."""

    @abstractmethod
    def reply(self, answer: Any) -> Reply:
        """The value in an answer."""

    @abstractmethod
    async def rendered(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The messages in the model's chat template, up to the beginning of its turn."""


class Vllm(Server):
    path = "/v1/completions"

    def body(self, ask: Ask) -> dict[str, Any]:
        constraint = ask.constraint
        body: dict[str, Any] = {
            "model": self.model, "prompt": ask.prompt, "max_tokens": ask.max_tokens, "seed": ask.seed,
            "temperature": ask.sampling.temperature or 0.0, "logprobs": 0, "add_special_tokens": False,
            **_given(ask.sampling, "top_p", "top_k", "min_p", "repetition_penalty"),
        }  # fmt: skip
        match constraint:
            case Schema(text=text):
                body["structured_outputs"] = {"json": json.loads(text)}
            case Pattern(regex=regex):
                body["structured_outputs"] = {"regex": regex}
            case Options(texts=texts, may_end=False):
                body["structured_outputs"] = {"choice": list(texts)}
            case Options() as options:
                body["structured_outputs"] = {"regex": options_regex(options)}
            case Free(stop=stop, pattern=pattern):
                body["stop"] = list(stop)
                if pattern is not None:
                    body["structured_outputs"] = {"regex": pattern}
        return body

    def reply(self, answer: Any) -> Reply:
        [choice], usage = answer["choices"], answer.get("usage") or {}
        scores = (choice.get("logprobs") or {}).get("token_logprobs")
        details = usage.get("prompt_tokens_details") or {}
        return Reply(
            choice["text"], int(usage.get("completion_tokens", len(scores or ()))), _sum(scores),
            choice["finish_reason"] == "length", int(usage.get("prompt_tokens", 0)),
            int(details.get("cached_tokens") or 0),
        )  # fmt: skip

    async def rendered(self, messages: Sequence[Mapping[str, str]]) -> str:
        body = {"model": self.model, "messages": list(messages), "add_generation_prompt": True}
        found = await self.transport.post("/tokenize", body)
        text = await self.transport.post("/detokenize", {"model": self.model, "tokens": found["tokens"]})
        return str(text["prompt"])


class Sglang(Server):
    path = "/generate"

    def body(self, ask: Ask) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "max_new_tokens": ask.max_tokens, "temperature": ask.sampling.temperature or 0.0,
            **_given(ask.sampling, "top_p", "top_k", "min_p", "repetition_penalty"),
        }  # fmt: skip
        match ask.constraint:
            case Schema(text=text):
                parameters["json_schema"] = text
            case Pattern(regex=regex):
                parameters["regex"] = regex
            case Options() as options:
                parameters["regex"] = options_regex(options)
            case Free(stop=stop, pattern=pattern):
                parameters["stop"] = list(stop)
                if pattern is not None:
                    parameters["regex"] = pattern
        if ask.sampling.temperature:
            parameters["sampling_seed"] = ask.seed
        return {"text": ask.prompt, "sampling_params": parameters, "return_logprob": True}

    def reply(self, answer: Any) -> Reply:
        about = answer["meta_info"]
        scores = [one[0] for one in about["output_token_logprobs"]] if about.get("output_token_logprobs") else None
        return Reply(
            answer["text"], int(about["completion_tokens"]), _sum(scores),
            (about.get("finish_reason") or {}).get("type") == "length", int(about.get("prompt_tokens", 0)),
            int(about.get("cached_tokens") or 0),
        )  # fmt: skip

    async def rendered(self, messages: Sequence[Mapping[str, str]]) -> str:
        raise Unsupported(
            "SGLang does not show its chat template: pass `tokenizer=`, the name or the folder of the model's tokenizer"
        )


class LlamaCpp(Server):
    path = "/completion"

    def body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "prompt": ask.prompt, "n_predict": ask.max_tokens, "temperature": ask.sampling.temperature or 0.0,
            "seed": ask.seed, "cache_prompt": True, "n_probs": 1,
            **_given(ask.sampling, "top_p", "top_k", "min_p"),
        }  # fmt: skip
        if ask.sampling.repetition_penalty is not None:
            body["repeat_penalty"] = ask.sampling.repetition_penalty
        match ask.constraint:
            case Schema(text=text):
                body["json_schema"] = json.loads(text)
            case Pattern(regex=regex):
                body["grammar"] = pattern_grammar(regex)
            case Options() as options:
                body["grammar"] = options_grammar(options)
            case Free(stop=stop, pattern=pattern):
                body["stop"] = list(stop)
                if pattern is not None:
                    body["grammar"] = pattern_grammar(pattern)
        return body

    def reply(self, answer: Any) -> Reply:
        scores = [one.get("logprob") for one in answer.get("completion_probabilities") or ()]
        return Reply(
            answer["content"], int(answer["tokens_predicted"]), _sum(scores or None),
            answer.get("stop_type") == "limit", int(answer.get("tokens_evaluated", 0)),
            int(answer.get("tokens_cached") or 0),
        )  # fmt: skip

    async def rendered(self, messages: Sequence[Mapping[str, str]]) -> str:
        found = await self.transport.post("/apply-template", {"messages": list(messages)})
        return str(found["prompt"])


SERVERS: Final[Mapping[Kind, type[Server]]] = {Kind.VLLM: Vllm, Kind.SGLANG: Sglang, Kind.LLAMA_CPP: LlamaCpp}


async def models_at(transport: Transport, patience: Patience) -> tuple[Kind, list[str]]:
    """What answers at an address, and the models that it has, one at least. Raises `HostError`."""
    found = await transport.first("/v1/models", patience)
    try:
        owner = str(found["data"][0].get("owned_by", "")).lower().replace(".", "").replace("-", "")
        names = [str(one["id"]) for one in found["data"]]
    except (KeyError, IndexError, TypeError, AttributeError):
        raise HostError(f"{transport.url}/v1/models lists no model") from None
    words = {"vllm": Kind.VLLM, "sglang": Kind.SGLANG, "llamacpp": Kind.LLAMA_CPP}
    return words.get(owner, Kind.OPENAI), names


def _given(sampling: Sampling, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(sampling, name)) is not None}


def _sum(scores: Sequence[float | None] | None) -> float | None:
    """The log-probability of a whole text. A server leaves out the first score, or writes None for it."""
    return None if scores is None else math.fsum(score for score in scores if score is not None)
