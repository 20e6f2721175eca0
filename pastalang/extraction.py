"""One call from a type and a text to a value: `extract`, on an engine or on a model that is loaded once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Unpack, overload

from typing_extensions import TypeIs, TypeVar

from pastalang.hosts.opening import AnyEngine, address_of, open_engine
from pastalang.runtime.call import EXTRACT_DEFAULTS, ExtractOptions, shows_options
from pastalang.runtime.errors import BadInputs
from pastalang.runtime.models.choice import default_model
from pastalang.runtime.models.source import DTypeName, absolute_name, check_source, is_address
from pastalang.runtime.partial_model import Partial, check_streamed
from pastalang.runtime.question import question_of
from pastalang.runtime.result import Extraction
from pastalang.values.pydantic.from_core import is_type, name_of_type

T = TypeVar("T", default=Any)
LanguageModel: TypeAlias = "str | Path | AnyEngine | None"


@overload
def extract(
    type: type[T], text: str, *, model: LanguageModel = ..., details: Literal[False] = False,
    **options: Unpack[ExtractOptions],
) -> T: ...  # fmt: skip
@overload
def extract(
    type: type[T], text: str, *, model: LanguageModel = ..., details: Literal[True], **options: Unpack[ExtractOptions]
) -> Extraction[T]: ...
@overload
def extract(
    type: object, text: str, *, model: LanguageModel = ..., details: bool = False, **options: Unpack[ExtractOptions]
) -> Any: ...
@shows_options(EXTRACT_DEFAULTS, ExtractOptions)
def extract(type: Any, text: str, *, model: LanguageModel = None, details: bool = False, **options: Any) -> Any:
    """Read a text and return an instance of the type.

        class Coffee(BaseModel):
            Brand: str
            RoastType: Literal["light", "medium", "dark"] | None

        print(pastalang.extract(Coffee, "Norvika Coffee, Dark Roast, 12 oz"))  # Brand='Norvika' RoastType='dark'

    The type is a Pydantic model, a dataclass, a `TypedDict`, an enum, or any other type that Pydantic knows, such as
    `list[Line]`, `Invoice | Receipt` or `Literal["yes", "no"]`. A JSON Schema as a dict is a type, too; its values are
    what `json.loads` makes of them. `model` is the language model, as for `Engine.load`, or
    the address of a server, "http://host:8000/v1#name"; without it, the one that `PASTALANG_MODEL` or `pasta.toml`
    names, else `pasta-mini`. It is loaded by the first call and kept; load an `Engine` to choose its device or its
    memory, and `connect` to a server to choose how patient you are.

    `instructions` says what to do, `context` is what else the model should know, and `examples` are pairs of a text and
    its value. `details=True` returns an `Extraction` with the confidence and the source of every field. The other
    options are those of `Engine.run`. Raises `NotExpressible` for a type that cannot be decoded, `Invalid` for a value
    that the type's own validators refuse, and what `Engine.run` raises.
    """
    question = question_of(type, text, {**options, "details": details})  # mistakes first, then the model
    return engine_for(model).ask(question)


@overload
async def aextract(
    type: type[T], text: str, *, model: LanguageModel = ..., details: Literal[False] = False,
    **options: Unpack[ExtractOptions],
) -> T: ...  # fmt: skip
@overload
async def aextract(
    type: type[T], text: str, *, model: LanguageModel = ..., details: Literal[True], **options: Unpack[ExtractOptions]
) -> Extraction[T]: ...
@overload
async def aextract(
    type: object, text: str, *, model: LanguageModel = ..., details: bool = False, **options: Unpack[ExtractOptions]
) -> Any: ...
@shows_options(EXTRACT_DEFAULTS, ExtractOptions)
async def aextract(type: Any, text: str, *, model: LanguageModel = None, details: bool = False, **options: Any) -> Any:
    """`extract` for asyncio: concurrent calls share forward passes."""
    question = question_of(type, text, {**options, "details": details})
    engine = await asyncio.to_thread(engine_for, model)
    return await engine.aask(question)


@shows_options(EXTRACT_DEFAULTS, ExtractOptions)
def stream_model(
    type: type[T] | Mapping[str, Any], text: str, *, model: LanguageModel = None, **options: Any
) -> Iterator[Partial[T]]:
    """Read a text as `extract` does, and yield a `Partial` of the value whenever a field is done.

        for partial in pastalang.stream_model(Coffee, "Norvika Coffee, Dark Roast, 12 oz"):
            print(partial.value.roast)  # None until it is done

    The last one has the value of the type as `final`.
    """
    check_streamed(question_of(type, text, options))  # mistakes first, then the model
    return engine_for(model).stream_model(type, text, **options)


@shows_options(EXTRACT_DEFAULTS, ExtractOptions)
async def astream_model(
    type: type[T] | Mapping[str, Any], text: str, *, model: LanguageModel = None, **options: Any
) -> AsyncGenerator[Partial[T], None]:
    """`stream_model` for asyncio: `async for partial in pastalang.astream_model(Coffee, text)`."""
    check_streamed(question_of(type, text, options))
    engine = await asyncio.to_thread(engine_for, model)
    async with aclosing(engine.astream_model(type, text, **options)) as found:
        async for partial in found:
            yield partial


def engine_for(model: LanguageModel) -> AnyEngine:
    """The engine that was given, or the one of a model, which is loaded once. Raises `BadInputs`."""
    return model if is_engine(model) else shared_engine(default_model().name if model is None else model)


def is_engine(model: object) -> TypeIs[AnyEngine]:
    """Does not import torch, as the module of `Engine` does."""
    return not is_type(model) and hasattr(model, "amap")


class SharedEngines:
    """One engine for each model and type, opened when it is first asked for. May be used from several threads."""

    def __init__(self) -> None:
        self._engines: dict[tuple[str, DTypeName | None], AnyEngine] = {}
        self._loading = threading.Lock()

    def __call__(self, model: str | Path, dtype: DTypeName | None = None) -> AnyEngine:
        key = _model_name(model), dtype
        found = self._engines.get(key)
        if found is None:
            with self._loading:
                found = self._engines.get(key) or self._load(*key)
        return found

    def _load(self, name: str, dtype: DTypeName | None) -> AnyEngine:
        found = self._engines[name, dtype] = open_engine(name, dtype=dtype)
        return found


shared_engine: Final = SharedEngines()


def _model_name(model: object) -> str:
    """A name on the hub or an address as it is, a folder as a full path. Raises `BadInputs`."""
    if is_type(model):
        raise BadInputs(f"`model` is the language model; the type comes first: `extract({name_of_type(model)}, text)`")
    if not isinstance(model, str | Path):
        raise BadInputs(f"`model` is a folder, a name on the hub, an address or an `Engine`, not {model!r:.60}")
    if is_address(model):
        address_of(str(model))
        return str(model)
    check_source(model)
    return absolute_name(model)
