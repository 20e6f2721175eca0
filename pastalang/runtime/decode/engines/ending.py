"""A short way to complete a value of a grammar: where it stands comes in, the tokens that close it go out."""

from __future__ import annotations

import numpy as np

from pastalang.runtime.decode.engines.matcher import Matcher
from pastalang.runtime.decode.engines.trace import Trace
from pastalang.runtime.decode.guide import TokenMask
from pastalang.runtime.decode.tokens import Tokens

_LONGEST_ENDING = 4_000  # bytes; a type whose shortest value is longer is refused
_LONGEST_STRING = 400
_MAX_STEPS = 700  # of the search in all; what takes more is refused within half a second

# What closes soonest comes first; inside a string only the quote does.
_OPENERS = b'0123456789"ntf[{-'
_FIRST = b']}0123456789"ntf,[{-:. rueals+eE'
_FIRST_IN_STRING = b'"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-.@:/ '
_ORDER = _FIRST + bytes(byte for byte in range(256) if byte not in _FIRST)
_STRING_ORDER = _FIRST_IN_STRING + bytes(byte for byte in range(256) if byte not in _FIRST_IN_STRING)


def find_ending(
    matcher: Matcher, trace: Trace, tokens: Tokens, *, samples: tuple[bytes, ...] = (), several: bool = False
) -> tuple[int, ...] | None:
    """A short way to complete the value, as few tokens; None where none was found.

    `several`: at the very start, where kinds of values differ most, all beginnings are tried.
    """
    beginnings: list[bytes] = [b""]
    if several:
        mask = matcher.mask()
        allowed = [byte for byte in range(256) if _has(mask, tokens, byte)]
        beginnings = [bytes((byte,)) for byte in sorted(allowed, key=_start_rank)[:12]]
    left = [_MAX_STEPS]
    found = [
        ending for first in beginnings if (ending := _search(matcher, trace, tokens, first, samples, left)) is not None
    ]
    best = min(found, key=len, default=None)
    return None if best is None else tokens.shortest(best)


def _start_rank(byte: int) -> int:
    return _OPENERS.index(byte) if byte in _OPENERS else len(_OPENERS)


def _has(mask: TokenMask, tokens: Tokens, byte: int) -> bool:
    token = tokens.ids.get(bytes((byte,)))
    return token is not None and bool(mask[token >> 5] >> np.uint32(token & 31) & np.uint32(1))


def _search(
    matcher: Matcher, trace: Trace, tokens: Tokens, first: bytes, samples: tuple[bytes, ...], left: list[int]
) -> bytes | None:
    """Byte by byte, always what closes soonest; what was written often gives way, so nothing turns in circles.

    `left` counts down the steps of the searches from one place.
    """
    matcher, written, used = matcher.copy(), bytearray(), [0] * 256
    if first:
        if not matcher.take([tokens.ids[first]]):
            return None
        trace, written = trace.grown(first), bytearray(first)
    while len(written) < _LONGEST_ENDING and left[0]:
        left[0] -= 1
        if trace.spoiled or matcher.inner.is_error():
            return None
        if trace.end is not None or (matcher.accepts and _is_whole(trace)):
            return bytes(written)
        if forced := bytes(matcher.inner.compute_ff_bytes()):
            spelled = tokens.shortest(forced)
            if spelled is not None and matcher.take(spelled):
                trace = trace.grown(forced)
                written += forced
                continue
        mask = matcher.mask()
        if trace.string == len(trace.raw) - 1 and not _has(mask, tokens, 0x22):
            sample = _take_sample(matcher, trace, tokens, samples)
            if sample is not None:
                trace = trace.grown(sample)
                written += sample
                continue
        if trace.string is not None and len(trace.raw) - trace.string > _LONGEST_STRING:
            return None
        byte = _best_byte(mask, trace, tokens, used)
        if byte is None or not matcher.take([tokens.ids[bytes((byte,))]]):
            return None
        used[byte] += 1
        if not trace.in_string and byte in b",]}":
            used = [0] * 256
        trace = trace.grown(bytes((byte,)))
        written.append(byte)
    return None


def _take_sample(matcher: Matcher, trace: Trace, tokens: Tokens, samples: tuple[bytes, ...]) -> bytes | None:
    """A string that a pattern of the grammar asks for, where one fits."""
    for sample in samples:
        spelled = tokens.shortest(sample)
        if spelled is None or trace.grown(sample).spoiled:
            continue
        if matcher.take_all(spelled):
            return sample
    return None


def _is_whole(trace: Trace) -> bool:
    """Whether an outermost number or word may end here."""
    return trace.is_scalar and not trace.closed_word().spoiled


def _best_byte(mask: TokenMask, trace: Trace, tokens: Tokens, used: list[int]) -> int | None:
    order = _STRING_ORDER if trace.in_string else _ORDER
    candidates = [byte for byte in order if _has(mask, tokens, byte)]
    closing = 0x22 if trace.in_string else None
    if closing in candidates and not trace.grown(b'"').spoiled and not _repeats(trace, 0x22):
        return closing
    good = [byte for byte in candidates if not trace.grown(bytes((byte,))).spoiled]
    good = [byte for byte in good if not _repeats(trace, byte)] or good
    return min(good, key=lambda byte: (used[byte] * 8 if byte not in b"]}" else 0) + order.index(byte), default=None)


def _repeats(trace: Trace, byte: int) -> bool:
    """Whether an item that ended behind the byte would stand there twice, where items differ."""
    return bool(trace.unique) and trace.grown(bytes((byte, 0x2C))).spoiled
