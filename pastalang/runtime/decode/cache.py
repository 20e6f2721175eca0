"""Guides that were compiled before, in memory; the tries of vocabularies, on disk.

Compiling takes milliseconds, so guides are kept in memory only, by all that they are made of. The trie of a large
vocabulary takes a third of a second: it is stored as plain arrays under the vocabulary's fingerprint. A file that
is damaged, or of another version, is as good as none.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import fields
from pathlib import Path

import numpy as np

from pastalang.plan.plan import Form
from pastalang.program import types as t
from pastalang.runtime.decode.engines.structures.grammar import NO_SOURCES
from pastalang.runtime.decode.guide import Guide
from pastalang.runtime.decode.guides import compile_guide
from pastalang.runtime.decode.tokens import Tokens
from pastalang.runtime.decode.trie import TokenTrie, build_trie
from pastalang.runtime.decode.vocabulary import Vocabulary
from pastalang.values.bounds import NO_TYPES

VERSION = 1
MAX_GUIDES = 512
MAX_FOLDER_BYTES = 256_000_000


class Numbers:
    """A number for every value, the same for equal ones: a large type is hashed once and not at every look-up."""

    def __init__(self, *, most: int = 4 * MAX_GUIDES) -> None:
        self._most = most
        self._next = 0
        self._seen: dict[int, tuple[Hashable, int]] = {}  # by identity; the object is held, so it stays the same
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, value: Hashable) -> int:
        known = self._seen.get(id(value))
        if known is not None:
            return known[1]
        if len(self._seen) >= self._most:  # what is numbered anew from here on is no number that was given before
            self._seen.clear()
            self._numbers.clear()
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = self._next
            self._next += 1
        self._seen[id(value)] = (value, number)
        return number


class GuideCache:
    """The guides of one vocabulary; the ones that were not asked for the longest go first."""

    def __init__(self, vocabulary: Tokens, *, most: int = MAX_GUIDES) -> None:
        self.vocabulary = vocabulary
        self._most = most
        self._guides: OrderedDict[Hashable, Guide] = OrderedDict()
        self._number = Numbers()

    def __len__(self) -> int:
        return len(self._guides)

    def guide(
        self,
        type: t.Type,
        *,
        form: Form,
        follow: str,
        types: Mapping[str, t.Type] = NO_TYPES,
        sources: Mapping[str, str] = NO_SOURCES,
        forbidden: tuple[str, ...] = (),
    ) -> Guide:
        """As `compile_guide`; a type that cannot be enforced is not remembered."""
        key = (self._number(type), form, follow, tuple(types.items()), tuple(sources.items()), forbidden)
        found = self._guides.get(key)
        if found is None:
            found = compile_guide(
                type,
                form=form,
                follow=follow,
                vocabulary=self.vocabulary,
                types=types,
                sources=sources,
                forbidden=forbidden,
            )
            self._guides[key] = found
            if len(self._guides) > self._most:
                self._guides.popitem(last=False)
        self._guides.move_to_end(key)
        return found


def load_tokens(vocabulary: Vocabulary, folder: Path, *, max_bytes: int = MAX_FOLDER_BYTES) -> Tokens:
    """The vocabulary with its trie, from the folder where it is there and sound; else it is built and stored."""
    path = folder / f"trie-{VERSION}-{vocabulary.fingerprint}.npz"
    trie = _read(path, sum(text is not None for text in vocabulary.spelling))
    if trie is None:
        trie = build_trie(vocabulary)
        _write(path, trie)
        _forget_oldest(folder, max_bytes)
    return Tokens(vocabulary, stored=trie)


def _read(path: Path, tokens: int) -> TokenTrie | None:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {field.name: stored[field.name] for field in fields(TokenTrie)}
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
        return None
    nodes = {len(arrays[name]) for name in ("byte", "first_child", "children", "low", "own", "high")}
    sound = all(array.dtype == np.int64 and array.ndim == 1 for array in arrays.values())
    if not sound or len(nodes) != 1 or len(arrays["order"]) != tokens or len(arrays["keys"]) != nodes.pop() - 1:
        return None
    return TokenTrie(**arrays)


def _write(path: Path, trie: TokenTrie) -> None:
    """A place that cannot be written to costs time, never the run."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, **{field.name: getattr(trie, field.name) for field in fields(trie)})
        Path(name).replace(path)
    except OSError:
        return


def _forget_oldest(folder: Path, max_bytes: int) -> None:
    try:
        files = sorted(folder.glob("trie-*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for path in files:
            total += path.stat().st_size
            if total > max_bytes:
                path.unlink(missing_ok=True)
    except OSError:
        return
