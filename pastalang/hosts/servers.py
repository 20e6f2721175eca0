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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Final, TypeAlias, TypeVar

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
from pastalang.hosts.transport import Patience, Transport, text_in, understood
from pastalang.plan.branches import TurnStart
from pastalang.plan.plan import Plan
from pastalang.plan.structure import walk_plan
from pastalang.program.program import Role
from pastalang.program.types import Sampling
from pastalang.runtime.binding.chat import Turn, turns_of


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


T = TypeVar("T")
Tokens: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """One value, or its next tokens: what stands before it, what it has to be, and how it is drawn.

    `likeliest` is how many tokens of the highest probability are wanted at each place. `among` are the tokens that one
    token is drawn from, as far as the server takes them, and `never` those that it is not.
    """

    prompt: str | Tokens
    constraint: Constraint | None
    max_tokens: int
    sampling: Sampling
    seed: int
    likeliest: int = 0
    among: Tokens = ()
    never: Tokens = ()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A token that a server has written, and the likeliest tokens at its place, the most probable one first, each with
    its log-probability. They are those of the model: no constraint was applied to them."""

    token: int
    log_probability: float
    likeliest: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """`log_probability` is None where the server gives none. `was_cut`: the limit has ended the text.

    `drawn` are its tokens, where `Ask.likeliest` asks for them.
    """

    text: str
    tokens: int
    log_probability: float | None
    was_cut: bool
    prompt_tokens: int = 0
    cached_tokens: int = 0
    drawn: tuple[Drawn, ...] = ()


class Server(ABC):
    """One kind of server that takes raw prompts."""

    path: ClassVar[str]
    likeliest: ClassVar[int] = 16  # tokens that are asked for at each place

    def __init__(self, transport: Transport, model: str) -> None:
        self.transport = transport
        self.model = model

    async def ask(self, ask: Ask, *, end: float | None) -> Reply:
        """Raises `HostError`, also for an answer that is not of the server's documented shape."""
        return await self.asked(self.path, self.body(ask), self.reply, end)

    async def asked(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T], end: float | None) -> T:
        """What is read of the answer of any address of the server. Raises `HostError`."""
        return understood(self.transport.url + path, await self.transport.post(path, body, end=end), read)

    def widths(self, vocabulary: int) -> tuple[int, ...]:
        """How many of the likeliest tokens to ask for where one of them has to fit: one number after the other."""
        return (self.likeliest,)

    @abstractmethod
    def body(self, ask: Ask) -> dict[str, Any]:
        """The request."""

    @abstractmethod
    def reply(self, answer: Any) -> Reply:
        """The value in an answer."""

    @abstractmethod
    async def rendered(self, messages: Sequence[Mapping[str, str]], *, end: float | None) -> str:
        """The messages in the model's chat template, up to the beginning of its turn."""


class Vllm(Server):
    path = "/v1/completions"

    def body(self, ask: Ask) -> dict[str, Any]:
        constraint = ask.constraint
        body: dict[str, Any] = {
            "model": self.model, "prompt": _sent(ask.prompt), "max_tokens": ask.max_tokens, "seed": ask.seed,
            "temperature": ask.sampling.temperature or 0.0, "logprobs": ask.likeliest, "add_special_tokens": False,
            **_given(ask.sampling, "top_p", "top_k", "min_p", "repetition_penalty"),
        }  # fmt: skip
        if ask.likeliest:
            body["return_tokens_as_token_ids"] = True
        if ask.among:
            body["allowed_token_ids"] = list(ask.among)
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
            text_in(choice["text"]), int(usage.get("completion_tokens", len(scores or ()))), _sum(scores),
            choice["finish_reason"] == "length", int(usage.get("prompt_tokens", 0)),
            int(details.get("cached_tokens") or 0), _vllm_tokens(choice.get("logprobs") or {}),
        )  # fmt: skip

    async def rendered(self, messages: Sequence[Mapping[str, str]], *, end: float | None) -> str:
        body = {"model": self.model, "messages": list(messages), "add_generation_prompt": True}
        tokens = await self.asked("/tokenize", body, lambda found: list(map(int, found["tokens"])), end)
        body = {"model": self.model, "tokens": tokens}
        return await self.asked("/detokenize", body, lambda found: text_in(found["prompt"]), end)


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
        prompt = {"text": ask.prompt} if isinstance(ask.prompt, str) else {"input_ids": list(ask.prompt)}
        body = {**prompt, "sampling_params": parameters, "return_logprob": True}
        if ask.likeliest:
            body["top_logprobs_num"] = ask.likeliest
        if ask.among:
            body["token_ids_logprob"] = list(ask.among)
        return body

    def reply(self, answer: Any) -> Reply:
        about = answer["meta_info"]
        scores = [one[0] for one in about.get("output_token_logprobs") or ()]
        return Reply(
            text_in(answer["text"]), int(about["completion_tokens"]), _sum(scores),
            (about.get("finish_reason") or {}).get("type") == "length", int(about.get("prompt_tokens", 0)),
            int(about.get("cached_tokens") or 0), _sglang_tokens(about),
        )  # fmt: skip

    async def rendered(self, messages: Sequence[Mapping[str, str]], *, end: float | None) -> str:
        raise Unsupported(
            "SGLang does not show its chat template: pass `tokenizer=`, the name or the folder of the model's "
            "tokenizer, or set PASTALANG_TOKENIZER"
        )


class LlamaCpp(Server):
    path = "/completion"

    def body(self, ask: Ask) -> dict[str, Any]:
        body: dict[str, Any] = {
            "prompt": _sent(ask.prompt), "n_predict": ask.max_tokens, "temperature": ask.sampling.temperature or 0.0,
            "seed": ask.seed, "cache_prompt": True, "n_probs": ask.likeliest or 1,
            **_given(ask.sampling, "top_p", "top_k", "min_p"),
        }  # fmt: skip
        if ask.likeliest:
            body["return_tokens"] = True
        if ask.never:
            body["logit_bias"] = [[token, False] for token in ask.never]
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
        if answer.get("truncated"):  # it has left out a part of the prompt, or of what it wrote, to go on
            raise HostError("the prompt and its answer are longer than the context of the server, see its `--ctx-size`")
        scores = [one.get("logprob") for one in answer.get("completion_probabilities") or ()]
        return Reply(
            text_in(answer["content"]), int(answer["tokens_predicted"]), _sum(scores),
            answer.get("stop_type") == "limit", int(answer.get("tokens_evaluated", 0)),
            int(answer.get("tokens_cached") or 0), _llama_tokens(answer),
        )  # fmt: skip

    def widths(self, vocabulary: int) -> tuple[int, ...]:
        return (_WIDE, vocabulary)

    async def rendered(self, messages: Sequence[Mapping[str, str]], *, end: float | None) -> str:
        body = {"messages": list(messages)}
        return await self.asked("/apply-template", body, lambda found: text_in(found["prompt"]), end)


SERVERS: Final[Mapping[Kind, type[Server]]] = {Kind.VLLM: Vllm, Kind.SGLANG: Sglang, Kind.LLAMA_CPP: LlamaCpp}


async def models_at(transport: Transport, patience: Patience) -> tuple[Kind, dict[str, bool]]:
    """What answers at an address, and the models that it has, one at least. Raises `HostError`.

    Of each, whether it reads keys as words: `pasta serve` says so.
    """
    found = await transport.first("/v1/models", patience)
    try:
        listed = found if isinstance(found, list) else found["data"]  # Together AI has nothing around its list
        owner = str(listed[0].get("owned_by", "")).lower().replace(".", "").replace("-", "")
        names = {str(one["id"]): one.get("keys_in_words") is True for one in listed}
    except (KeyError, IndexError, TypeError, AttributeError):
        raise HostError(f"{transport.url}/v1/models lists no model") from None
    words = {"vllm": Kind.VLLM, "sglang": Kind.SGLANG, "llamacpp": Kind.LLAMA_CPP}
    return words.get(owner, Kind.OPENAI), names


_WIDE: Final = 1_000  # tokens: one that fits is nearly always among so many
_BY_ID: Final = "token_id:"


def _sent(prompt: str | Tokens) -> str | list[int]:
    return prompt if isinstance(prompt, str) else list(prompt)


def _vllm_tokens(about: Mapping[str, Any]) -> tuple[Drawn, ...]:
    """The tokens are `token_id:5`, and the likeliest ones are in no order. None of it is there if it was not asked."""
    texts, scores = about.get("tokens") or (), about.get("token_logprobs") or ()
    if not about.get("top_logprobs") or not all(str(text).startswith(_BY_ID) for text in texts):
        return ()
    found = []
    for text, score, others in zip(texts, scores, about.get("top_logprobs") or (), strict=True):
        pairs = [(_id_of(other), float(one)) for other, one in (others or {}).items()]
        found.append(Drawn(_id_of(text), score or 0.0, tuple(sorted(pairs, key=lambda pair: -pair[1]))))
    return tuple(found)


def _id_of(text: str) -> int:
    return int(text.removeprefix(_BY_ID))


def _sglang_tokens(about: Mapping[str, Any]) -> tuple[Drawn, ...]:
    """Each token is its log-probability, its number and its text. Where some tokens were asked for, theirs come too."""
    drawn, likeliest = about.get("output_token_logprobs") or (), about.get("output_top_logprobs") or ()
    among = about.get("output_token_ids_logprobs") or [None] * len(drawn)
    found = []
    for (score, token, *_), top, some in zip(drawn, likeliest, among, strict=False):
        pairs = {int(one[1]): float(one[0]) for one in (*(top or ()), *(some or ()))}
        ordered = sorted(pairs.items(), key=lambda pair: -pair[1])
        found.append(Drawn(int(token), float(score), tuple(ordered)))
    return tuple(found)


def _llama_tokens(answer: Mapping[str, Any]) -> tuple[Drawn, ...]:
    """A token that ends inside of a character has no probabilities, nor has a text that ends the value."""
    scored = list(answer.get("completion_probabilities") or ())
    found = []
    for token in answer.get("tokens") or ():
        if scored and scored[0].get("id") == token:
            one = scored.pop(0)
            pairs = [(int(other["id"]), float(other["logprob"])) for other in one.get("top_logprobs") or ()]
            found.append(Drawn(token, float(one["logprob"]), tuple(pairs)))
        else:
            found.append(Drawn(int(token), 0.0))
    return tuple(found)


def _given(sampling: Sampling, *names: str) -> dict[str, Any]:
    return {name: value for name in names if (value := getattr(sampling, name)) is not None}


def _sum(scores: Sequence[float | None] | None) -> float | None:
    """The log-probability of a whole text. A server leaves out the first score, or writes None for it; None if it
    gives no other one."""
    known = [score for score in scores or () if score is not None]
    return math.fsum(known) if known else None


# ── the words around messages ─────────────────────────────────────────────────────────────────────────


_MARK: Final = "zq{}qz"


def roles_of(plan: Plan) -> tuple[Role, ...]:
    """The roles of all turns, in order. Stacked documents have the same turns each."""
    found = {segment.index: segment.role for _, _, segment in walk_plan(plan) if isinstance(segment, TurnStart)}
    return tuple(found[index] for index in sorted(found))


class Turns:
    """The turns of each list of roles, asked for once. `tokenizer` is one of transformers, if it is at hand."""

    def __init__(self, server: Server, tokenizer: Any) -> None:
        self._server = server
        self._tokenizer = tokenizer
        self._known: dict[tuple[Role, ...], tuple[Turn, ...]] = {}

    async def of(self, roles: tuple[Role, ...], *, end: float | None) -> tuple[Turn, ...]:
        if roles not in self._known:
            if self._tokenizer is not None:
                self._known[roles] = turns_of(self._tokenizer, roles)
            else:
                self._known[roles] = await self._asked(roles, end)
        return self._known[roles]

    async def _asked(self, roles: Sequence[Role], end: float | None) -> tuple[Turn, ...]:
        """The server renders messages of marks, and the words between the marks are the template's."""
        marks = [_MARK.format(index) for index in range(len(roles) - 1)]
        rest = await self._server.rendered(
            [{"role": role.value, "content": mark} for role, mark in zip(roles, marks, strict=False)], end=end
        )
        openings = []
        for mark in marks:
            before, found, rest = rest.partition(mark)
            if not found:
                raise HostError("the server's chat template drops or changes a message")
            openings.append(before)
        return tuple(Turn(opening, "") for opening in (*openings, rest))
