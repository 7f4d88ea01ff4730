"""Weights and Adam's moments, whole: what one scheme hands to the next."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from workloads.parallel.grid import Channel, run_of, splits


def gather_state(model: nn.Module, optimiser: torch.optim.Adam, channel: Channel) -> dict[str, list[Tensor]]:
    """name -> [values, first moment, second moment], whole on every member of the tensor channel."""
    result = {}
    for name, parameter in model.named_parameters():
        moments = optimiser.state.get(parameter, {})
        parts = [
            parameter.detach(),
            moments.get("exp_avg", torch.zeros_like(parameter)).detach(),
            moments.get("exp_avg_sq", torch.zeros_like(parameter)).detach(),
        ]
        result[name] = [_joined(part, parameter, channel) for part in parts]
    return result


def load_state(
    model: nn.Module,
    optimiser: torch.optim.Adam,
    channel: Channel,
    state: dict[str, list[Tensor]],
    steps: int,
) -> None:
    """Put this member's runs of a whole state in place."""
    for name, parameter in model.named_parameters():
        values, first, second = (_own(part, parameter, channel) for part in state[name])
        parameter.data.copy_(values)
        optimiser.state[parameter] = {
            "step": torch.tensor(float(steps)),
            "exp_avg": first.clone(),
            "exp_avg_sq": second.clone(),
        }


def _joined(part: Tensor, parameter: nn.Parameter, channel: Channel) -> Tensor:
    divided = getattr(parameter, "divided", None)
    if divided is None or channel.workers == 1:
        return part.clone()
    dim, total, unit = divided
    shapes = []
    for size in splits(total // unit, channel.workers):
        shape = list(part.shape)
        shape[dim] = size * unit
        shapes.append(tuple(shape))
    return torch.cat(channel.gather_all(part.contiguous(), shapes), dim=dim)


def _own(whole: Tensor, parameter: nn.Parameter, channel: Channel) -> Tensor:
    divided = getattr(parameter, "divided", None)
    if divided is None or channel.workers == 1:
        return whole
    dim, total, unit = divided
    run = run_of(total // unit, channel.workers, channel.rank)
    return whole.narrow(dim, run.start * unit, (run.stop - run.start) * unit)
