"""Training a model whose weights are bfloat16: steps are taken on float32 copies, so that small ones are not lost."""

from __future__ import annotations

from typing import Any

import torch

from pastalang.training.checkpoints import Weights, put_weights, trained_weights


class Masters:
    """The float32 copies of all weights that are trained. Making them rounds the weights of the model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._pairs = {
            name: (weight, weight.detach().float().clone())
            for name, weight in model.named_parameters()
            if weight.requires_grad
        }
        for weight in model.parameters():
            weight.data = weight.data.bfloat16()

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [master for _, master in self._pairs.values()]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """`trained_weights` of the model, unrounded."""
        return {
            name: self._pairs[name][1] if name in self._pairs else value
            for name, value in trained_weights(self._model).items()
        }

    @torch.no_grad()
    def put(self, weights: Weights) -> None:
        """Raises `CheckpointError` if the weights are not those of this model."""
        put_weights(self._model, weights)
        for name, (_, master) in self._pairs.items():
            master.copy_(weights[name])

    @torch.no_grad()
    def norm(self) -> torch.Tensor:
        """Of the gradient of all weights."""
        grads = [weight.grad for weight, _ in self._pairs.values() if weight.grad is not None]
        norms = [torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in grads]
        return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())

    def step(self, optimizer: torch.optim.Optimizer, scale: float) -> None:
        """One step with the gradients times `scale`, a weight at a time: only one float32 gradient exists."""
        for weight, master in self._pairs.values():
            if weight.grad is not None:
                master.grad = weight.grad.float().mul_(scale)
                weight.grad = None
                optimizer.step()
                master.grad = None
                weight.data.copy_(master)

    def unround(self) -> None:
        """Give the model the copies as its weights."""
        for weight, master in self._pairs.values():
            weight.data = master
        for weight in self._model.parameters():
            weight.data = weight.data.float()
