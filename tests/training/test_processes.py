"""Several processes train what one process trains, and end together."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pastalang
from pastalang import PastaError
from pastalang.training.batches import Batch
from pastalang.training.errors import BadData, Interrupted, TrainingStopped
from pastalang.training.settings import Precision
from pastalang.training.trainer import Processes, all_processes, train
from tests.training.lessons import toy_llama
from tests.training.test_fine_tune import SOURCE, write_rows
from tests.training.test_trainer import SETTINGS, TOY, silent, text_batches, tiny_model


def in_processes(count: int, act: Callable[[Processes], Any]) -> list[Any]:
    """What `act` gives in each of so many processes, or the error that it raises."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torch.set_num_threads(1)  # a forked process has none of its parent's threads
    children = [_fork(rank, count, port, act) for rank in range(count)]
    found = []
    for child, reading in children:
        with os.fdopen(reading, "rb") as stream:
            found.append(pickle.loads(stream.read() or pickle.dumps("died")))
        os.waitpid(child, 0)
    return found


def _fork(rank: int, count: int, port: int, act: Callable[[Processes], Any]) -> tuple[int, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)  # before the next fork: a pipe that two can write to ends when both have ended
        return child, reading
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        with all_processes("cpu") as (processes, device):
            assert device == "cpu"
            try:
                found = act(processes)
            except PastaError as problem:
                found = (type(problem), str(problem))
    except BaseException:
        found = traceback.format_exc()
    with os.fdopen(writing, "wb") as stream:
        pickle.dump(found, stream)
    os._exit(0)


def share_of(processes: Processes) -> Callable[[int], Batch]:
    """Of two lines, which do not predict as many tokens."""

    def share(number: int) -> Batch:
        whole = text_batches(number)
        labels = whole.labels.clone()
        labels[1, 5:] = -100
        mine = slice(processes.rank, None, processes.count)
        parts = (part[mine] for part in (whole.tokens, whole.positions, labels))
        return Batch(*parts, visible=None, origins=whole.origins[mine])

    return share


def trained_in(processes: Processes, folder: Path, **rest: Any) -> list[Any]:
    model = tiny_model()
    settings = replace(SETTINGS, accumulation=2, judge_every=2, average=0.5, **rest.pop("settings", {}))
    given: dict[str, Any] = {"identity": TOY, "report": silent, "processes": processes} | rest
    train(model, share_of(processes), settings, folder, **given)
    return [weight.detach().numpy() for weight in model.parameters()]


@pytest.mark.parametrize("precision", [Precision.FLOAT32, Precision.BFLOAT16])
def test_two_processes_train_what_one_trains_and_an_interrupted_run_equals_an_unbroken_one(
    tmp_path: Path, precision: Precision
) -> None:
    judge = lambda model: float(model.model.norm.weight.detach().sum())  # noqa: E731
    settings = {"precision": precision}
    alone = trained_in(Processes(), tmp_path / "alone", judge=judge, settings=settings)
    both = in_processes(2, lambda two: trained_in(two, tmp_path / "two", judge=judge, settings=settings))
    for one, other, expected in zip(*both, alone, strict=True):
        assert np.array_equal(one, other)
        assert np.allclose(one, expected, atol=5e-5 if precision is Precision.FLOAT32 else 5e-3)

    def stopped(two: Processes) -> Any:
        steps = []
        # Ctrl-C may reach one process a step before the other one.
        is_stopped = lambda: len(steps) == 3 + two.rank  # noqa: E731
        return trained_in(
            two, tmp_path / "parts", judge=judge, settings=settings, is_stopped=is_stopped, on_step=steps.append
        )

    assert in_processes(2, stopped) == [(Interrupted, "stopped after step 3 of 6; a checkpoint is saved")] * 2
    resumed = in_processes(2, lambda two: trained_in(two, tmp_path / "parts", judge=judge, settings=settings))
    for one, other, expected in zip(*resumed, both[0], strict=True):
        assert np.array_equal(one, other) and np.array_equal(one, expected)


def test_a_loss_that_is_not_a_number_in_one_process_stops_all_and_names_its_rows(tmp_path: Path) -> None:
    bad = text_batches(5).origins[1]

    def act(two: Processes) -> Any:
        def loss(model: Any, batch: Batch) -> torch.Tensor:
            found = model(input_ids=batch.tokens).logits.square().mean()
            return found * float("nan") if bad in batch.origins else found

        return trained_in(two, tmp_path, loss=loss)

    assert in_processes(2, act) == [(TrainingStopped, f"step 3: the loss is nan on these rows: {bad}")] * 2


def test_a_weight_that_only_one_process_uses_gets_its_gradient_in_all() -> None:
    def act(two: Processes) -> Any:
        weights = [torch.zeros(2, requires_grad=True) for _ in range(3)]
        (weights[two.rank] * (two.rank + 1)).sum().backward()
        two.add_gradients(weights)
        return [None if weight.grad is None else weight.grad.tolist() for weight in weights]

    assert in_processes(2, act) == [[[1.0, 1.0], [2.0, 2.0], None]] * 2


@pytest.mark.long
def test_a_launcher_that_is_interrupted_and_one_that_loses_a_process_end_with_the_same_weights(tmp_path: Path) -> None:
    """The command, started by torchrun as a person would."""
    write_rows(tmp_path / "rows.jsonl")
    (tmp_path / "p.pasta").write_text(SOURCE, encoding="utf-8")
    toy_llama(tmp_path / "model")
    rest = "--steps 60 --rows 4 --save-every 10 --device cpu --precision float32"
    words = f"train hpd --model model --program p.pasta --data rows.jsonl {rest}".split()
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "pastalang"]

    def start(out: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*launcher, *words, "--out", out], cwd=tmp_path, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(pastalang.__file__).parents[1])},
        )  # fmt: skip

    def wait_for(step: int, out: str) -> None:
        while f'"step": {step},' not in _text(tmp_path / out / "training/metrics.jsonl"):
            time.sleep(0.1)

    assert "saved to whole" in start("whole").communicate()[0]
    run = start("parts")
    wait_for(12, "parts")
    run.send_signal(signal.SIGINT)
    assert "a checkpoint is saved in parts: give the same command again to go on" in run.communicate()[0]
    run = start("parts")
    wait_for(35, "parts")
    workers = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True, check=True).stdout.split()
    os.kill(int(workers[-1]), signal.SIGKILL)
    run.communicate()
    assert run.returncode
    assert "going on after step" in start("parts").communicate()[0]
    whole, parts = ((tmp_path / out / "model.safetensors").read_bytes() for out in ("whole", "parts"))
    assert whole == parts


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


def test_a_process_that_ends_is_missed_by_the_others() -> None:
    def act(two: Processes) -> Any:
        return "gone" if two.is_first else two.sums(1.0)

    first, second = in_processes(2, act)
    assert first == "gone" and "another process of this run has ended" in second[1]


@pytest.mark.parametrize(
    ("variables", "device", "message"),
    [
        (
            {"ACCELERATE_USE_FSDP": "true"},
            "cpu",
            r"set up to split the weights \(FSDP\), and `pasta train` only splits b",
        ),
        ({}, "cuda:0", "2 processes cannot share the device cuda:0; they take a GPU each without --device"),
        ({"LOCAL_RANK": "99"}, "cuda", "there are more processes on this machine than GPUs"),
    ],
)
def test_what_processes_cannot_share_is_refused(
    variables: dict[str, str], device: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ({"WORLD_SIZE": "2", "RANK": "0"} | variables).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadData, match=message), all_processes(device):
        pass
