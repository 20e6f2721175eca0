"""Stand-ins for servers: they speak the documented wire, answer from a script, and fail when they are told to."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

import pastalang
from pastalang.program.program import ListOf, Program
from pastalang.program.regex import Chars, Choice, Repetition, Sequence, parse_regex
from pastalang.testing.byte_tokenizer import byte_tokenizer

TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}<assistant>"
Answer = Callable[[str, Any], str]  # of a prompt and a constraint


def first_value(prompt: str, constraint: Any) -> str:
    """A value that fits: the first option, or a short value that names how many requests came before it."""
    match constraint:
        case {"choice": [first, *_]}:
            return str(first)
        case {"regex": str() as regex}:
            usual = (text for text in (" words", ' "text"') if re.fullmatch(regex, text))
            return next(usual, None) or _matching(regex)
        case {"json": schema}:
            return json.dumps(_instance(schema, schema))
        case _:
            return "words"


def _matching(regex: str) -> str:
    """The shortest text that takes the first way everywhere."""

    def text(node: Any) -> str:
        match node:
            case Chars(ranges=((low, _), *_)):
                return chr(low)
            case Sequence(items=items):
                return "".join(map(text, items))
            case Choice(arms=(first, *_)):
                return text(first)
            case Repetition(item=item, minimum=minimum):
                return text(item) * minimum
        raise AssertionError(node)

    return text(parse_regex(regex))


def _instance(schema: Any, root: Any) -> Any:
    if "$ref" in schema:
        found = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return _instance(found, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return _instance(schema[name][0], root)
    match schema.get("type"):
        case "object":
            return {key: _instance(part, root) for key, part in schema.get("properties", {}).items()}
        case "array" if "prefixItems" in schema:
            return [_instance(part, root) for part in schema["prefixItems"]]
        case "array":
            return [_instance(schema["items"], root)] * max(1, schema.get("minItems", 0))
        case "integer" | "number":
            return int(schema.get("minimum", schema.get("exclusiveMinimum", 4))) + ("not" in schema)
        case "boolean":
            return True
        case "null":
            return None
        case "string" if "pattern" in schema:
            return _matching(schema["pattern"])
        case _:
            return "text"


@dataclass
class StandIn:
    """A server of one kind. `asked` are the prompts, `faults` what goes wrong, before each answer."""

    kind: str = "vllm"
    answer: Answer = first_value
    faults: Iterator[Any] = field(default_factory=lambda: iter(()))
    asked: list[str] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    log_probability: float | None = -0.25
    failed: int = 0
    is_gone: bool = False  # nothing is answered any more
    keys: list[str | None] = field(default_factory=list)  # that requests came with
    key: str | None = None  # that it asks for
    knows_tokens: bool = False  # its answers are texts, which it says no tokens of

    def connect(self, **options: Any) -> pastalang.RemoteEngine:
        options = {"retries": 8, **options}
        if self.kind == "sglang":  # which does not show its chat template
            options.setdefault("tokenizer", byte_tokenizer(chat_template=TEMPLATE))
        engine = pastalang.connect("http://host:8000/v1#m", transport=httpx.MockTransport(self.handle), **options)
        if not self.knows_tokens:
            engine.known_tokens = None
        engine._transport.patience = type(engine._transport.patience)(
            timeout=5, deadline=options.get("deadline"), retries=options["retries"], wait=0.001, longest_wait=0.002
        )
        return engine

    async def handle(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        self.keys.append(request.headers.get("authorization"))
        if self.key is not None and self.keys[-1] != f"Bearer {self.key}":
            return httpx.Response(401, json={"error": {"message": f"no such key{self.keys[-1] or ''}"}})
        body = json.loads(request.content) if request.content else None
        if self.is_gone:
            raise httpx.ReadError("gone")
        if path == "/v1/models":
            owner = {"llama.cpp": "llamacpp"}.get(self.kind, self.kind)
            return httpx.Response(200, json={"data": [{"id": "m", "owned_by": owner}]})
        if path in ("/tokenize", "/apply-template"):
            text = "".join(f"<{one['role']}>{one['content']}</>" for one in body["messages"]) + "<assistant>"
            return httpx.Response(200, json={"tokens": list(text.encode()), "prompt": text})
        if path == "/detokenize":
            return httpx.Response(200, json={"prompt": bytes(body["tokens"]).decode()})
        fault = next(self.faults, None)
        self.failed += fault is not None
        if isinstance(fault, Exception):
            raise fault
        if fault is not None:
            return fault  # type: ignore[no-any-return]
        self.bodies.append(body)
        return httpx.Response(200, text=json.dumps(self._reply(path, body)))  # which can spell half a character

    def _reply(self, path: str, body: Any) -> Any:
        match body:
            case {"messages": messages, "response_format": {"json_schema": {"schema": schema}}}:
                text = self._text(json.dumps(messages), {"json": schema})
                usage = {"prompt_tokens": 3, "completion_tokens": 2}
                return {"choices": [{"message": {"content": text}}], "usage": usage}
            case {"sampling_params": {"json_schema": schema}}:
                constraint: Any = {"json": json.loads(schema)}
            case {"sampling_params": {"regex": regex}}:
                constraint = {"regex": regex}
            case {"json_schema": schema}:
                constraint = {"json": schema}
            case _:
                constraint = body.get("structured_outputs") or _options_of(body.get("grammar"))
        text = self._text(body["text"] if "text" in body else body["prompt"], constraint)
        return shaped(path, text, [(5, self.log_probability, [])], len(body.get("prompt", "x")))

    def _text(self, prompt: str, constraint: Any) -> str:
        self.asked.append(prompt)
        text = self.answer(prompt, constraint)
        self.answered.append(text)
        return text


@contextmanager
def listening(host: StandIn) -> Iterator[str]:
    """The address of a stand-in on a free port. Where it fails with an exception, the connection is cut."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            request = httpx.Request(self.command, f"http://host{self.path}", headers=dict(self.headers), content=body)
            try:
                found = asyncio.run(host.handle(request))
            except httpx.TransportError:
                self.close_connection = True
                return
            self.send_response(found.status_code)
            self.send_header("content-length", str(len(found.content)))
            self.end_headers()
            self.wfile.write(found.content)

        do_GET = do_POST

        def log_message(self, format: str, *words: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # whoever asked may be gone
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def given_inputs(program: Program) -> dict[str, Any]:
    """Inputs for a program of the strategy `programs`: texts, and lists of texts."""
    return {
        one.name: ["a", "b"] if one.each or isinstance(one.type, ListOf) else "some words"
        for one in program.only_template.inputs
    }


def _options_of(grammar: str | None) -> Any:
    if grammar is None:
        return None
    options = [json.loads(one) for one in re.findall(r'"(?:[^"\\]|\\.)*"', grammar)]
    if options:
        return {"choice": options}
    characters = re.sub(r"\\U(.{8})", lambda found: chr(int(found[1], 16)), grammar.removeprefix("root ::= "))
    return {"regex": characters.replace(" ", "")}


def faults(seed: int, count: int) -> Iterator[Any]:
    """Everything that networks and servers do, in some order, and None where a request is answered."""
    chance = random.Random(seed)
    kinds = [
        lambda: httpx.ConnectError("refused"), lambda: httpx.ReadTimeout("slow"),
        lambda: httpx.RemoteProtocolError("cut"), lambda: httpx.Response(500, text="oops"),
        lambda: httpx.Response(429, json={"error": {"message": "busy"}}, headers={"retry-after": "0"}),
        lambda: httpx.Response(503, json={"message": "loading"}),
        lambda: httpx.Response(200, text='{"choices": [{"te'),
    ]  # fmt: skip
    return iter([chance.choice(kinds)() if chance.random() < 0.4 else None for _ in range(count)])


@dataclass
class ModelHost(StandIn):
    """A server with a model: `score` gives the logits behind tokens.

    It writes at most `ahead` tokens, looks at no constraint, and says what was likeliest as servers of its kind do.
    """

    score: Callable[[tuple[int, ...]], Any] = field(default=lambda tokens: [0.0])
    words: Any = ()
    ahead: int = 2
    knows_tokens: bool = True

    @cached_property
    def tokenizer(self) -> Any:
        return byte_tokenizer(words=self.words, chat_template=TEMPLATE)

    @property
    def end(self) -> int:
        """The token that ends the model's turn."""
        return int(self.tokenizer.eos_token_id)

    def connect(self, **options: Any) -> pastalang.RemoteEngine:
        return super().connect(tokenizer=self.tokenizer, **options)

    def _reply(self, path: str, body: Any) -> Any:
        parameters = body.get("sampling_params", body)
        prompt = body["input_ids"] if "input_ids" in body else body["prompt"]
        most = next(parameters[name] for name in ("max_tokens", "max_new_tokens", "n_predict") if name in parameters)
        width = next(body[name] for name in ("logprobs", "top_logprobs_num", "n_probs") if name in body)
        never, places = {token for token, _ in body.get("logit_bias", ())}, []
        while len(places) < min(most, self.ahead) and not (places and places[-1][0] == self.end):
            scores = list(self.score((*prompt, *(token for token, _, _ in places))))
            among = [one for one in body.get("allowed_token_ids", range(len(scores))) if one not in never]
            best = sorted(range(len(scores)), key=lambda one: -scores[one])[:width]
            token = max(among, key=scores.__getitem__)
            places.append((token, scores[token], [(one, scores[one]) for one in best]))
        self.answered.append(self.tokenizer.decode([token for token, _, _ in places if token != self.end]))
        some = [(one, scores[one]) for one in body.get("token_ids_logprob", ())]
        return shaped(path, self.answered[-1], places, len(prompt), some)


def shaped(path: str, text: str, places: list[Any], prompt: int, some: Any = ()) -> Any:
    """An answer as the servers document it. A place is a token, its log-probability and the likeliest tokens there."""
    usage = {"prompt_tokens": prompt, "completion_tokens": len(places)}
    match path:
        case "/v1/completions":
            about = {
                "tokens": [f"token_id:{token}" for token, _, _ in places],
                "token_logprobs": [score for _, score, _ in places],
                "top_logprobs": [{f"token_id:{one}": score for one, score in sorted(top)} for _, _, top in places],
            }
            return {"choices": [{"text": text, "finish_reason": "stop", "logprobs": about}], "usage": usage}
        case "/generate":
            meta = {
                **usage,
                "finish_reason": {"type": "stop"},
                "output_token_logprobs": [[score, token, None] for token, score, _ in places],
                "output_top_logprobs": [[[score, one, None] for one, score in top] for _, _, top in places],
            }
            if some:
                meta["output_token_ids_logprobs"] = [[[score, one, None] for one, score in some]]
            return {"text": text, "meta_info": meta}
        case "/completion":
            scored = [
                {"id": token, "logprob": score, "top_logprobs": [{"id": one, "logprob": its} for one, its in top]}
                for token, score, top in places
                if token not in HALVES
            ]
            tokens = [token for token, _, _ in places]
            about = {"stop_type": "eos", "tokens_predicted": len(places), "completion_probabilities": scored}
            return {"content": text, "tokens": tokens, **about}
    raise AssertionError(path)


HALVES = range(0x80, 0x100)  # bytes of a character: llama.cpp names nothing in their places
