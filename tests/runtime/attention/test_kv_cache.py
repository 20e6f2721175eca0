"""The KV cache keeps what each step writes, in place."""

from __future__ import annotations

import pytest
import torch

from pastalang.runtime.attention.attention import all_cells
from pastalang.runtime.attention.kv_cache import CellMapping, KVCache, aligned_zeros

CPU = torch.device("cpu")


def states(*numbers: float) -> torch.Tensor:
    """One head of size 1: (1, 1, tokens, 1)."""
    return torch.tensor(numbers)[None, None, :, None]


def written(cache: KVCache, cells: tuple[int, ...], *numbers: float, width: int) -> list[float]:
    cache.begin(CellMapping.of(cells, width=width, device=CPU))
    keys, values = cache.update(states(*numbers), states(*numbers) * 10, 0)
    assert torch.equal(values, keys * 10)
    return [float(number) for number in keys.flatten()]


def test_a_cache_starts_as_zeros_and_is_never_cleared() -> None:
    cache = KVCache(cells=6, layers=2)
    assert written(cache, (5,), 1.0, width=6) == [0.0] * 5 + [1.0]
    assert written(cache, (0,), 2.0, width=6) == [2.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_what_attention_reads_is_a_view_and_no_copy() -> None:
    cache = KVCache(cells=6, layers=1)
    cache.begin(CellMapping.of((0,), width=2, device=CPU))
    first, _ = cache.update(states(1.0), states(1.0), 0)
    cache.begin(CellMapping.of((1,), width=2, device=CPU))
    second, _ = cache.update(states(2.0), states(2.0), 0)
    assert first.data_ptr() == second.data_ptr()


def test_a_cache_says_how_large_it_is() -> None:
    cache = KVCache(cells=6, layers=2)
    assert (cache.bytes, cache.is_initialized) == (0, False)
    cache.begin(CellMapping.of((0,), width=2, device=CPU))
    for layer in range(2):
        cache.update(states(1.0), states(1.0), layer)
    assert (cache.bytes, cache.is_initialized) == (2 * 2 * 6 * 4, True)
    assert (cache.width, cache.cells) == (2, 6)


def test_noise_goes_to_the_named_cells_only() -> None:
    cache = KVCache(cells=4, layers=1)
    written(cache, (0, 1), 1.0, 2.0, width=4)
    cache.overwrite(torch.tensor([1, 2]), torch.Generator().manual_seed(0))
    cache.begin(CellMapping.of((3,), width=4, device=CPU))
    keys, _ = cache.update(states(4.0), states(4.0), 0)
    changed = [bool(number) for number in (keys.flatten() != torch.tensor([1.0, 2.0, 0.0, 4.0]))]
    assert changed == [False, True, True, False]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_an_allocation_is_zeros_of_the_given_type_and_begins_at_a_cache_line(dtype: torch.dtype) -> None:
    zeros = aligned_zeros((1, 3, 1000, 5), like=torch.empty(0, dtype=dtype))
    assert (zeros.shape, zeros.dtype, zeros.data_ptr() % 64) == ((1, 3, 1000, 5), dtype, 0)
    assert not zeros.any()
    zeros[:] = 1
    assert zeros.sum() == 15_000


def test_attention_selects_from_the_whole_cache_which_needs_no_copy() -> None:
    cache = KVCache(cells=6, layers=1)
    cache.begin(CellMapping.of((0, 1), width=2, device=CPU))
    heads = torch.arange(12.0).view(1, 3, 2, 2)
    keys, _ = cache.update(heads, heads, 0)
    cells = all_cells(keys)
    assert cells.is_contiguous() and cells.data_ptr() == keys.data_ptr() and cells.shape == (3, 6, 2)
    assert torch.equal(cells[:, :2], heads[0]) and not cells[:, 2:].any()


def test_what_a_model_makes_of_the_cache_is_selected_from_as_it_is() -> None:
    keys = torch.arange(24.0).view(1, 3, 4, 2)
    for made in (keys[:, :, 1:], keys.transpose(2, 3), keys[..., :1]):
        assert torch.equal(all_cells(made), made[0])
