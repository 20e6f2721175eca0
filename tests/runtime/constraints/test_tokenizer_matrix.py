"""Every kind of constraint with every kind of tokenizer: a mask is what the definition of the type says, by token.

The definition is a regular expression over the bytes of a value's spellings. A token is allowed if the value so far and
the token begin some spelling, or if they are a whole spelling and text that agrees with what follows the hole.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import pytest
import regex
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from pastalang.plan.branches import Form
from pastalang.program import types as t
from pastalang.runtime.constraints.compile import compile_guide
from pastalang.runtime.constraints.guide import State
from pastalang.runtime.constraints.masks import tokens_of
from pastalang.runtime.constraints.tokens import Tokens
from pastalang.runtime.constraints.vocabulary import vocabulary_of
from pastalang.values.patterns import FORMATS, MOMENTS, UUID
from tests.properties.vocabularies import byte_level, sentence_piece

FOLLOW = ",\n  "
STEPS = 7
SOURCE = "a new TV, 4K"

_UTF8 = (
    rb"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
)
_UTF8 += rb"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
_HEX = rb"[0-9a-fA-F]"
_ESCAPE = rb'\\(?:["\\/bfnrt]|u(?:[0-9a-cA-CefEF]' + _HEX * 3 + rb"|[dD][0-7]" + _HEX * 2
_ESCAPE += rb"|[dD][89abAB]" + _HEX * 2 + rb"\\u[dD][c-fC-F]" + _HEX * 2 + rb"))"
CHARACTER = rb"(?:[\x20\x21\x23-\x5b\x5d-\x7f]|" + _ESCAPE + rb"|" + _UTF8 + rb")"
KEY_CHARACTER = CHARACTER.replace(rb"\x7f", rb"\x7e")  # the keys of maps are llguidance's own strings
INTEGER = rb"(?:0|-?[1-9][0-9]{0,18})"
QUARTERS = rb"(?:[0-9](?:\.(?:00?|25?|50?|75?))?|10(?:\.00?)?)"


def quoted(*patterns: str) -> bytes:
    return b'"(?:' + "|".join(patterns).encode() + b')"'


def spans() -> list[str]:
    """All quotations of whole words of the source."""
    words = [found.span() for found in regex.finditer(r"\w+|,", SOURCE)]
    return [SOURCE[begin:end] for at, (begin, _) in enumerate(words) for _, end in words[at:]]


@dataclass(frozen=True)
class Kind:
    """`ends_in_follow`: a token must not hold more than the text that follows, as for values that nest."""

    type: t.Type
    spelled: bytes
    form: Form = Form.JSON
    follow: str = FOLLOW
    ends_in_follow: bool = False


def nested(type: t.Type, spelled: bytes) -> Kind:
    return Kind(type, spelled, ends_in_follow=True)


KINDS: dict[str, Kind] = {
    "boolean or null": Kind(t.Union((t.Boolean(), t.Null())), b"true|false|null"),
    "enum": Kind(t.Union((t.Literal("Sony"), t.Literal("So"), t.Literal(4))), b'"Sony"|"So"|4'),
    "integer": Kind(t.Integer(), INTEGER),
    "integer within bounds": Kind(t.Integer(minimum=-1, maximum=120), b"-1|[0-9]|[1-9][0-9]|1[01][0-9]|120"),
    "number within bounds": Kind(t.Number(minimum=0, maximum=10, multiple_of=Decimal("0.25")), QUARTERS),
    "date": Kind(t.Temporal(t.Moment.DATE), quoted(MOMENTS[t.Moment.DATE])),
    "datetime": Kind(t.Temporal(t.Moment.DATETIME), quoted(MOMENTS[t.Moment.DATETIME])),
    "uuid": Kind(t.Uuid(), quoted(UUID)),
    "expression": Kind(t.Regex("[A-Z]{2}-[0-9]{1,4}(, [a-z]+)*"), quoted("[A-Z]{2}-[0-9]{1,4}(, [a-z]+)*")),
    "format": Kind(t.String(format="email"), quoted(FORMATS["email"].pattern)),
    "expression with limits": Kind(
        t.String(pattern="[a-z]{2}( [a-z]{2})*", min_chars=4, max_chars=9), quoted("[a-z]{2}( [a-z]{2}){1,2}")
    ),
    "string": Kind(t.String(), b'"' + CHARACTER + b'*"'),
    "string with limits": Kind(t.String(min_chars=2, max_chars=5), b'"' + CHARACTER + b'{2,5}"'),
    "quotation": Kind(t.Verbatim("source"), quoted(*map(regex.escape, spans()))),
    "several kinds": Kind(
        t.Union((t.String(max_chars=3), t.Integer(), t.Null())), b'"' + CHARACTER + b'{0,3}"|' + INTEGER + b"|null"
    ),
    "integer in text": Kind(t.Integer(), INTEGER, Form.TEXT, ". The end"),
    "expression in text": Kind(t.Regex("[a-z]+( [a-z]+)?"), b"[a-z]+(?: [a-z]+)?", Form.TEXT, " — größer"),
    "list of integers": nested(
        t.Array(t.Integer(minimum=0, maximum=20), 1, 3), rb"\[(?:1?[0-9]|20)(?:, (?:1?[0-9]|20)){0,2}\]"
    ),
    "list of strings": nested(
        t.Array(t.String(max_chars=4), 0, 2), rb'\[(?:"C{0,4}"(?:, "C{0,4}")?)?\]'.replace(b"C", CHARACTER)
    ),
    "list of formats": nested(
        t.Array(t.Temporal(t.Moment.DATE), 1, 2), rb"\[D(?:, D)?\]".replace(b"D", quoted(MOMENTS[t.Moment.DATE]))
    ),
    "tuple": nested(t.Tuple((t.Boolean(), t.Integer())), rb"\[(?:true|false), " + INTEGER + rb"\]"),
    "map": nested(
        t.Map(t.Integer(), max_items=1), rb'\{(?:"C*": I)?\}'.replace(b"C", KEY_CHARACTER).replace(b"I", INTEGER)
    ),
    "object": nested(
        t.Object((t.Field("brand", t.Union((t.String(), t.Null()))), t.Field("n", t.Boolean()))),
        rb'\{"brand": (?:"C*"|null), "n": (?:true|false)\}'.replace(b"C", CHARACTER),
    ),
    "schema": nested(t.Schema('{"enum": [1, "two", null]}'), b'1|"two"|null'),
}


@lru_cache
def tekken() -> Tokens:
    """Byte-level BPE with its control tokens first, single digits, and words that begin with any one character."""
    split = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    control = ["<unk>", "<s>", "</s>", *(f"<SPECIAL_{number}>" for number in range(13))]
    trainer = trainers.BpeTrainer(
        vocab_size=1_000, special_tokens=[AddedToken(token, special=True) for token in control],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
    )  # fmt: skip
    texts = [f'{{"brand": "Sony", "n": {number}, "größe": "4K — {number}"}},\n  a new TV' for number in range(200)]
    backend.train_from_iterator(texts, trainer)
    return Tokens(vocabulary_of(PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")))


TOKENIZERS: dict[str, Callable[[], Tokens]] = {
    "byte-level BPE": byte_level, "SentencePiece": sentence_piece, "Tekken": tekken,
}  # fmt: skip


def allowed_by_definition(kind: Kind, before: bytes, tokens: Tokens) -> set[int]:
    spelled = regex.compile(b"(?:" + kind.spelled + b")")
    return {id for text, ids in tokens.by_text.items() if _may_come(kind, spelled, before, text) for id in ids}


def _may_come(kind: Kind, spelled: regex.Pattern[bytes], before: bytes, text: bytes) -> bool:
    if spelled.fullmatch(before + text, partial=True):
        return True
    raw, follow = before + text, kind.follow.encode()
    for end in range(len(raw)):
        rest = raw[end:]
        agrees = follow.startswith(rest) or (rest.startswith(follow) and not kind.ends_in_follow)
        if agrees and (whole := spelled.fullmatch(raw[:end], partial=True)) and not whole.partial:
            return True
    return False


def _start(kind: Kind, tokens: Tokens) -> State:
    guide = compile_guide(kind.type, form=kind.form, follow=kind.follow, vocabulary=tokens, sources={"source": SOURCE})
    return guide.start(max_tokens=400)


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("name", KINDS)
def test_a_mask_allows_what_the_definition_of_the_type_allows(name: str, tokenizer: str) -> None:
    kind, tokens, rng = KINDS[name], TOKENIZERS[tokenizer](), random.Random(f"{name} {tokenizer}")
    state, raw = _start(kind, tokens), b""
    for _ in range(STEPS):
        for token in state.forced():  # there is nothing to draw
            state.advance(token)
            raw += tokens.text(token) or b""
        if state.is_finished:
            break
        allowed = set(tokens_of(state.allowed()).tolist())
        expected = allowed_by_definition(kind, raw, tokens)
        assert allowed == expected, [(raw, tokens.text(token)) for token in sorted(allowed ^ expected)[:5]]
        inside = [token for token in sorted(expected) if _stays_inside(kind, raw + (tokens.text(token) or b""))]
        token = rng.choice(inside or sorted(expected))
        state.advance(token)
        raw += tokens.text(token) or b""
        if state.is_finished or not inside:
            break


def _stays_inside(kind: Kind, raw: bytes) -> bool:
    """Whether these bytes only begin a value: a longer walk has more to compare."""
    found = regex.compile(b"(?:" + kind.spelled + b")").fullmatch(raw, partial=True)
    return found is not None and found.partial
