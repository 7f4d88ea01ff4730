"""The weights' gradients, added up over the workers."""

from __future__ import annotations

import torch

from workloads.training.wire import Wire


def reduce_gradients(model: torch.nn.Module, wire: Wire) -> int:
    """Every parameter's gradient becomes the sum of all workers', in one message; the bytes sent."""
    parameters = list(model.parameters())
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flat = torch.cat([grad.reshape(-1) for grad in grads])
    sent = wire.all_reduce(flat)
    for parameter, grad in zip(parameters, flat.split([g.numel() for g in grads]), strict=True):
        parameter.grad = grad.view_as(parameter).clone()
    return sent
