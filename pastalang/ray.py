"""The same extraction on the machines of a Ray cluster. Needs the extra `ray`.

`extract` makes a Ray dataset of rows from one of documents: `map_batches` over a pool of actors, each with an engine of
its own. `RayWorkers` are the processes of `pasta extract --ray`, which writes the files of a run on one machine.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, get_args

from pastalang.bulk.documents import Document, documents_in, narrowed
from pastalang.bulk.rows import Origin, Row, Task, extractions_of, row_of, rows_of, task_of_program, task_of_type
from pastalang.failures import FileError, PastaError
from pastalang.hosts.opening import open_engine
from pastalang.program.program import Program
from pastalang.runtime.call import IN_FLIGHT
from pastalang.runtime.errors import BadInputs, LoadError, RunError
from pastalang.runtime.models.choice import default_model, revision_of
from pastalang.runtime.models.source import DTypeName, absolute_name, is_address
from pastalang.runtime.result import Extraction

if TYPE_CHECKING:
    from pastalang.bulk.table import Worker

LOCAL: Final = "local"  # an address: a cluster of this machine alone, which ends with the run
BATCH: Final = 256  # documents that are decoded, and lost with a process, together
_DEATHS: Final = 2  # of processes that decode a block, before its documents are decoded one by one
_DEATHS_OF_A_DOCUMENT: Final = 3
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


def import_ray() -> Any:
    """Raises `FileError` if Ray is not installed."""
    try:
        import ray
        import ray.data
    except ImportError as problem:
        raise FileError("a cluster needs Ray: pip install 'pastalang[ray]'") from problem
    return ray


def failed_row(document: Document, reason: str, task: Task, origin: Origin) -> Row:
    return row_of(document, Extraction.of(RunError(reason), id=document.id), task, origin)


# ── datasets ─────────────────────────────────────────────────────────────────────────────────────────────


def extract(
    dataset: Any, what: Any, *, model: str | Path | None = None, text: str | Sequence[str] = (), id: str | None = None,
    template: str | None = None, workers: int | tuple[int, int] = 1, cpus: float = 1, gpus: float = 0,
    device: str | None = None, dtype: DTypeName | None = None, cells: int | None = None, in_flight: int = IN_FLIGHT,
    batch: int = BATCH, **options: Any,
) -> Any:  # fmt: skip
    """The rows of a Ray dataset of documents, as a Ray dataset that is computed when it is read or written.

        rows = pastalang.ray.extract(ray.data.read_parquet("titles"), Coffee, workers=8, gpus=1)
        rows.write_parquet("coffees")

    `what` is a type or a program. `text`, `id` and the other options are those of `extract_many`; for a program, `text`
    has `input=column`. Rows have the columns of `pasta extract`, with a schema that follows from `what` alone. No
    document is lost, and rows are in the order of the dataset. One that fails has a status; one that kills three
    processes in a row too.

    `workers` is the number of actors, or the fewest and the most of a pool that grows. Each has `cpus` and `gpus` of
    the cluster and loads the model once. With the address of a server as `model`, such as the one that runs on its own
    machine, an actor needs no GPU. Leave two CPUs of the cluster free: reading and writing take them, and with none
    left nothing runs. Raises `BadInputs` if the cluster has no room for the workers.
    """
    ray = import_ray()
    from pastalang.bulk.table import Worker

    texts = (text,) if isinstance(text, str) else tuple(text)
    if isinstance(what, Program):
        task = task_of_program(what, text=texts, id=id, template=template, options=options)
    else:
        task = task_of_type(what, text=texts or ("text",), id=id, options=options)
    fewest, most = (workers, workers) if isinstance(workers, int) else workers
    if ray.is_initialized():
        _check_room(ray, fewest, cpus, gpus)
    name = str(default_model().name if model is None else model)
    worker = Worker(task, model=name, device=device, dtype=dtype, cells=cells, in_flight=in_flight)
    found = (
        dataset.map_batches(_Narrow(task.read.all), batch_format="pyarrow")
        .repartition(target_num_rows_per_block=batch)  # small documents would make one block, for one actor
        .map_batches(
            _Blocks, batch_format="pyarrow", batch_size=None, num_cpus=cpus, num_gpus=gpus or None,
            compute=ray.data.ActorPoolStrategy(min_size=fewest, max_size=most),
            fn_constructor_args=(worker, ray.remote(num_cpus=0, max_restarts=-1)(_Deaths).remote()),
        )
    )  # fmt: skip
    found.context.execution_options.preserve_order = True
    return found


def _check_room(ray: Any, workers: int, cpus: float, gpus: float) -> None:
    """Raises `BadInputs` if not all workers could run at once: without this, a run waits forever and says nothing."""
    there = ray.cluster_resources()
    for name, each in (("CPU", cpus), ("GPU", gpus)):
        has = there.get(name, 0)
        if workers * each > has:
            raise BadInputs(f"{workers} workers need {workers * each:g} {name}s, and the cluster has {has:g}")


class _Narrow:
    """Leaves the columns that are read, so that the others do not fill the object store."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns

    def __call__(self, table: Any) -> Any:
        return narrowed(table, self._columns)


class _Deaths:
    """An actor that counts how many actors have died of something: those that come back without having ended it."""

    def __init__(self) -> None:
        self._running: dict[str, set[str]] = {}
        self._of: Counter[str] = Counter()

    def back(self, actor: str) -> None:
        """The actor begins, for the first time or after it has died."""
        self._of.update(self._running.pop(actor, ()))

    def begin(self, actor: str, name: str) -> int:
        """How many have died of it before."""
        self._running.setdefault(actor, set()).add(name)
        return self._of[name]

    def end(self, actor: str, name: str) -> None:
        self._running.get(actor, set()).discard(name)


class _Blocks:
    """An actor of `map_batches`. Ray starts it again when it dies, and gives it the block that it died of."""

    def __init__(self, worker: Worker, deaths: Any) -> None:
        import ray

        self._worker = worker
        self._deaths = deaths
        self._get = ray.get
        self._me = ray.get_runtime_context().get_actor_id()  # the same after each restart
        ray.get(deaths.back.remote(self._me))

    def __call__(self, table: Any) -> Any:
        content = self._name_of(table)
        deaths = self._begin(content)
        rows = self._worker(table) if deaths < _DEATHS else self._one_by_one(table)
        self._end(content)
        return rows

    def _name_of(self, table: Any, *more: str) -> str:
        return sha256(repr((*more, *documents_in(table, self._worker.task.read))).encode()).hexdigest()

    def _begin(self, name: str) -> int:
        deaths: int = self._get(self._deaths.begin.remote(self._me, name))
        return deaths

    def _end(self, name: str) -> None:
        self._get(self._deaths.end.remote(self._me, name))

    def _one_by_one(self, table: Any) -> Any:
        import pyarrow as pa

        found = []
        for number in range(len(table)):
            row = table.slice(number, 1)
            name = self._name_of(row, "alone")
            is_deadly = self._begin(name) >= _DEATHS_OF_A_DOCUMENT
            found.append(self._failed(row) if is_deadly else self._worker(row))
            self._end(name)
        return pa.concat_tables(found)

    def _failed(self, row: Any) -> Any:
        from pastalang.bulk.table import table_of

        task = self._worker.task
        [document] = documents_in(row, task.read)
        reason = f"the process that decoded it died {_DEATHS_OF_A_DOCUMENT} times"
        found = failed_row(replace(document, origin=""), reason, task, self._worker.origin)
        return table_of([found], task, self._worker.schema)


# ── runs over files ──────────────────────────────────────────────────────────────────────────────────────


class RayWorkers:
    """Actors that decode batches of documents. A context manager that connects to a cluster, or starts one.

    `size` is None for one worker on each GPU, or on each CPU of a cluster that has none. Workers whose model runs on a
    server take no GPU: by default, each machine has one of them.
    """

    def __init__(
        self, address: str, task: Task, origin: Origin, *, size: int | None, device: str | None, cells: int | None,
        in_flight: int, api_key: str | None = None,
    ) -> None:  # fmt: skip
        if address == LOCAL:  # read when Ray is imported; by default any other process goes before its workers
            os.environ.setdefault("RAY_worker_niceness", "0")
        self._ray = import_ray()
        self._address = address
        self._task = task
        self._origin = origin
        model = absolute_name(origin.model)
        self._given = (task, origin, model, device, cells, in_flight, api_key)
        self._asks = is_address(model)
        self._size = size
        self._actors: dict[Hashable, Any] = {}
        self._running: dict[Any, Hashable] = {}  # what is awaited, and from whom

    def __enter__(self) -> RayWorkers:
        """Raises `PastaError` if there is no cluster, if it has no room, or if a worker cannot load the model."""
        is_local = self._address == LOCAL
        cpus = {"num_cpus": max(self._size or 0, os.cpu_count() or 1)} if is_local else {}
        path = os.pathsep.join(dict.fromkeys([str(Path.cwd()), *filter(None, sys.path)]))
        code = [] if is_local else own_code(self._task.type)
        shared: dict[str, Any] = {"env_vars": {"PYTHONPATH": path}} if is_local else {"py_modules": code}
        try:
            self._ray.init(
                address=self._address, include_dashboard=False if is_local else None, log_to_driver=False,
                logging_level="error", runtime_env=shared if is_local or code else None,
                **cpus,
            )  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError) as problem:
            raise FileError(
                f"no Ray cluster could be reached at {self._address}: {_line(problem)}; one that asks for a token "
                "needs it in RAY_AUTH_TOKEN"
            ) from problem
        try:
            self._begin()
        except BaseException:
            self._ray.shutdown()
            raise
        return self

    def _begin(self) -> None:
        there = self._ray.cluster_resources()
        self._gpus = 1 if there.get("GPU") and not self._asks else 0
        machines = sum(node["Alive"] for node in self._ray.nodes())
        self._size = self._size or (machines if self._asks else int(there.get("GPU") or there.get("CPU", 1)))
        _check_room(self._ray, self._size, 1, self._gpus)
        self._actors = {number: self._new(waits=False) for number in range(self._size)}
        waiting = [actor.problem.remote() for actor in self._actors.values()]
        [first], _ = self._ray.wait(waiting, num_returns=1)
        problem = self._result(first)
        if isinstance(problem, str):
            raise RunError(f"a worker could not begin: {problem}")
        if isinstance(problem, LoadError) and self._address != LOCAL:
            raise LoadError(f"{problem} (on a worker: the model has to be at the same place on every machine)")
        if isinstance(problem, PastaError):
            raise problem

    def _new(self, *, waits: bool) -> Any:
        """An actor; with `waits`, it gives a server time to start again."""
        where = {"scheduling_strategy": "SPREAD"} if self._asks else {}
        remote = self._ray.remote(num_cpus=1, num_gpus=self._gpus, max_restarts=0, **where)(_Decoder)
        return remote.remote(*self._given, waits)

    def __exit__(self, kind: type[BaseException] | None, found: BaseException | None, at: TracebackType | None) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._ray.shutdown()

    # ── what `rows_of_pool` asks of workers ──────────────────────────────────────────────────────────────

    @property
    def size(self) -> int:
        return len(self._actors)

    @property
    def idle(self) -> Sequence[Hashable]:
        busy = set(self._running.values())
        return [name for name in self._actors if name not in busy]

    def start(self, worker: Hashable, documents: Sequence[Document]) -> None:
        self._running[self._actors[worker].rows.remote(list(documents))] = worker

    def wait(self, seconds: float) -> Mapping[Hashable, list[Row] | str]:
        ended, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        found: dict[Hashable, list[Row] | str] = {}
        for one in ended:
            worker = self._running.pop(one)
            result = found[worker] = self._result(one)
            if isinstance(result, str):
                self._ray.kill(self._actors[worker])  # it may be there still, after an error of its own
                self._actors[worker] = self._new(waits=True)
        return found

    def kill(self, worker: Hashable) -> None:
        self._ray.kill(self._actors[worker])

    def failed(self, document: Document, reason: str) -> Row:
        return failed_row(document, reason, self._task, self._origin)

    def _result(self, one: Any) -> Any:
        """What an actor has returned, or how it died."""
        try:
            return self._ray.get(one)
        except self._ray.exceptions.RayTaskError as problem:
            return _line(problem.cause)
        except self._ray.exceptions.RayError as problem:
            return _line(problem)


def _line(problem: BaseException) -> str:
    """What to say of it in one line: the first one, or the last one of a traceback, where the reason stands."""
    lines = [line.strip() for line in _COLOUR.sub("", str(problem)).splitlines() if line.strip()]
    if any("Traceback" in line or line.startswith("File ") for line in lines) or "creation task" in "".join(lines[:1]):
        lines = lines[-1:]
    return (lines[0] if lines else type(problem).__name__)[:200].rstrip(".")


def own_code(what: object) -> list[str]:
    """The files and packages that define a type, but for installed ones: other machines are sent a copy of them."""
    found = [path for one in get_args(what) for path in own_code(one)]
    module = sys.modules.get(str(getattr(what, "__module__", "")).partition(".")[0])
    place = next(iter(getattr(module, "__path__", ())), getattr(module, "__file__", None))
    if isinstance(place, str) and Path(place).exists():
        path = Path(place).resolve()
        installed = (Path(__file__).parent, *map(Path, sysconfig.get_paths().values()))
        if not any(path.is_relative_to(folder.resolve()) for folder in installed):
            found.append(str(path))
    return list(dict.fromkeys(found))


def _check_revision(model: str, origin: Origin) -> None:
    """Raises `LoadError` if this machine has another version of the model, whose rows would differ."""
    here = revision_of(model, origin.adapter)
    if "unknown" not in (here, origin.revision) and here != origin.revision:
        raise LoadError(f"{origin.model} is of revision {here}, and of {origin.revision} where the run began")


class _Decoder:
    """An actor with an engine."""

    def __init__(
        self, task: Task, origin: Origin, model: str, device: str | None, cells: int | None, in_flight: int,
        api_key: str | None, waits: bool,
    ) -> None:  # fmt: skip
        self._task = task
        self._origin = origin
        self._in_flight = in_flight
        self._problem: PastaError | None = None
        try:
            self._engine = open_engine(
                model, device=device, dtype=origin.dtype, cells=cells, adapter=origin.adapter, api_key=api_key,
                documents=in_flight, waits=waits,
            )  # fmt: skip
            _check_revision(model, origin)
            list(extractions_of(self._engine, task, (), in_flight=in_flight))  # what is wrong for all documents
        except PastaError as problem:
            self._problem = problem

    def problem(self) -> PastaError | None:
        return self._problem

    def rows(self, documents: Sequence[Document]) -> list[Row]:
        if self._problem is not None:
            raise self._problem
        pairs = rows_of(self._engine, self._task, self._origin, documents, in_flight=self._in_flight)
        return [row for _, row in pairs]
