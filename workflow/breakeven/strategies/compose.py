"""Several strategies on one model, in the one order that works.

First what cuts the model's layers (tensor), what a layer sees (context) and which layers a rank has (pipeline); then,
on what is left, activation checkpointing and compilation; last what replicates or shards it over the data.
"""

from typing import Any

from breakeven.schema.spec import Json
from breakeven.schema.strategies import Product
from breakeven.schema.strategy import Kind
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.registry import strategy
from breakeven.strategies.state import Parameter, State, parameters_of, replicated
from breakeven.strategies.trainee import Trainee, blocks

_ORDER: tuple[Kind, ...] = ("tensor", "context", "pipeline")
_DATA: tuple[Kind, ...] = ("data", "none")


def compose(
    trainee: Trainee, product: Product, mesh: Mesh, options: Json, *, checkpointing: bool, compiled: bool
) -> Trainee:
    """The trainee as the product of its strategies trains it, on its device."""
    for kind in _ORDER:
        trainee = _apply(trainee, product, kind, mesh, options)
    if checkpointing:
        checkpoint_blocks(trainee)
    if compiled:
        compile_blocks(trainee)
    for kind in _DATA:
        trainee = _apply(trainee, product, kind, mesh, options)
    if product.of_kind("data") is None:  # those place what they hold themselves: a shard may belong elsewhere
        trainee.module.to(mesh.device)
    return trainee


def expected_state(trainee: Trainee, product: Product, mesh: Mesh, options: Json, moments: int) -> State:
    """Bytes this rank must hold, by the strategies' formulas; ``trainee`` as built, before any strategy."""
    parameters: list[Parameter] = parameters_of(trainee.module)
    for kind in _ORDER:
        meta = product.of_kind(kind)
        if meta is not None and hasattr(strategy(meta.name), "local"):
            parameters = strategy(meta.name).local(parameters, trainee, mesh, _own(options, meta))
    data = product.of_kind("data")
    if data is None:
        return replicated(parameters, moments)
    found: State = strategy(data.name).state(parameters, mesh, _own(options, data), moments)
    return found


def checkpoint_blocks(trainee: Trainee) -> None:
    """Every repeated block keeps its input alone and is run again in the backward pass."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    for name, block in blocks(trainee):
        parent, _, child = name.rpartition(".")
        setattr(trainee.module.get_submodule(parent), child, checkpoint_wrapper(block))


def compile_blocks(trainee: Trainee) -> None:
    """Block by block: equal blocks are compiled once, and a strategy still finds them by name.

    Shapes are the same in every update, and blocks of one class may each be a graph of their own: without the two
    settings torch would try symbolic shapes after the second, and leave all past the eighth as they are.
    """
    import torch._dynamo

    found = blocks(trainee)
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 2 * len(found))
    for _, block in found:
        block.compile(dynamic=False)


def _apply(trainee: Trainee, product: Product, kind: Kind, mesh: Mesh, options: Json) -> Trainee:
    meta = product.of_kind(kind)
    if meta is None:
        return trainee
    applied: Trainee = strategy(meta.name).apply(trainee, mesh, _own(options, meta))
    return applied


def _own(options: Json, meta: Any) -> Json:
    """A strategy's own options, with its defaults."""
    return {name: options.get(name, option.default) for name, option in meta.options.items()}
