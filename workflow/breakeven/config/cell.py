"""One row of a sweep to one run: in one form, and held against what its strategy, model, data and machine can do.

What a machine alone cannot do is let through: it becomes a record ``unsupported`` (``schema.support``).
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from breakeven.config.fit import misfits
from breakeven.config.load import closest
from breakeven.config.machine import Machine
from breakeven.config.models import RunSettings
from breakeven.config.series import held_equal
from breakeven.config.sources import bundled
from breakeven.config.values import shown
from breakeven.schema.catalog import WORKLOADS, Objective, attention_heads
from breakeven.schema.degrees import normal, resolve
from breakeven.schema.errors import UserError
from breakeven.schema.point import Scaling
from breakeven.schema.spec import Json, Spec, Workload
from breakeven.schema.strategies import Product, find_strategy
from breakeven.schema.strategy import Need, Option
from breakeven.schema.support import refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What all cells of a study stand on."""

    workload: Workload
    objective: Objective
    family: str | None
    """The model's, also of a folder of weights; None where only the fetched model tells."""
    model: Json
    """What of the model's config is known."""
    samples: int | None
    """Samples in the training split; None where only the prepared data tell."""
    machine: Machine

    @property
    def images(self) -> bool:
        return self.objective == "image-classification"


class NoFit(UserError):
    """Not a device count for this strategy with its degrees, options and model: ``devices: auto`` leaves it out."""


@dataclass(frozen=True, slots=True)
class Planned:
    spec: Spec
    scaling: Scaling
    held: Json
    """What is equal along its curve, by the user's names."""


def plan_cell(settings: RunSettings, ground: Ground, where: str, *, oversubscribe: bool) -> Planned:
    """Raises UserError that begins with ``where`` for what cannot be, on any machine; where the device count is at
    fault, NoFit."""
    devices = int(settings.devices)
    product = strategy_of(settings.strategy, where)
    if settings.data is not None:
        ground = _on_other_data(ground, settings.data, where)
    machine = ground.machine
    _refuse_devices(product, devices, ground, where, oversubscribe=oversubscribe)
    try:
        degrees = resolve(product.axes, devices, settings.degrees)
    except ValueError as error:
        raise NoFit(f"{where}: {error}.") from None
    options = _options(product, settings.strategy_options, where)
    _refuse_objective(settings, ground, where)
    workload = ground.workload
    if settings.image_size is not None:
        workload = dataclasses.replace(workload, image_size=settings.image_size)
    batch = _global_batch(settings, product, devices, degrees, options, where)
    rule, rule_batch = _learning_rate_rule(settings, where)
    epoch = _epoch_updates(settings, ground, batch, degrees, where)
    updates = _updates(settings, epoch, where)
    evaluate_every = epoch if settings.evaluate_every == "epoch" else settings.evaluate_every
    if evaluate_every > updates:
        raise UserError(
            f"{where}: evaluate_every {evaluate_every} is past the last of {updates} updates, so nothing would be "
            f"evaluated. Use at most {updates}, or more updates."
        )
    cuda = machine.device_kind == "cuda"
    # Whatever has no effect is in no run's identity.
    loads, workers = not settings.synthetic, 0 if settings.synthetic else settings.workers
    spec = Spec(
        workload=workload,
        strategy=product.name,
        strategy_options=options,
        degrees=normal(product.axes, devices, degrees),
        device_kind=machine.device_kind,
        device_model=machine.device_model,
        devices=devices,
        # more ranks than devices all run on the one node there is
        devices_per_node=max(devices, machine.devices_per_node) if oversubscribe else machine.devices_per_node,
        global_batch=batch,
        sampling=settings.sampling,
        gradient_accumulation=settings.gradient_accumulation,
        precision=settings.precision,
        optimizer=settings.optimizer,
        learning_rate=settings.learning_rate,
        learning_rate_rule=rule,
        learning_rate_batch=rule_batch,
        activation_checkpointing=settings.activation_checkpointing,
        compile=settings.compile,
        memory_format=settings.memory_format,
        workers=workers,
        prefetch_factor=settings.prefetch_factor if workers else 2,
        persistent_workers=settings.persistent_workers and workers > 0,
        pin_memory=loads and (cuda if settings.pin_memory is None else settings.pin_memory),
        non_blocking=loads and (cuda if settings.non_blocking is None else settings.non_blocking),
        resize_on=settings.resize_on if loads else "device",
        synthetic=settings.synthetic,
        updates=updates,
        min_warmup=settings.min_warmup,
        evaluate_every=evaluate_every,
        seed=settings.seed,
        timed=not oversubscribe,
    )
    if spec.nodes > 1:
        raise UserError(
            f"{where}: {devices} devices are {spec.nodes} nodes of {machine.devices_per_node}, "
            f"and this version measures within one node. Use at most {machine.devices_per_node} devices."
        )
    if fault := next(iter(misfits(spec.workload, ground.model)), None):
        raise UserError(f"{where}: {fault}")
    if fault := next(_model_faults(product, degrees, ground), None) or refused(spec):
        raise NoFit(f"{where}: {fault}")
    scaling: Scaling = "weak" if settings.global_batch is None else "strong"
    return Planned(spec, scaling, held_equal(spec, scaling, _instead(settings, product, degrees)))


def _on_other_data(ground: Ground, name: str, where: str) -> Ground:
    source = bundled(name, f"{where}: data")
    if source.objective != ground.objective:
        raise UserError(f"{where}: data '{name}' is for {source.objective}, the workload for {ground.objective}.")
    workload = dataclasses.replace(ground.workload, data=source.data)
    return dataclasses.replace(ground, workload=workload, samples=source.samples)


def strategy_of(text: str, where: str) -> Product:
    try:
        return find_strategy(text)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _refuse_devices(product: Product, devices: int, ground: Ground, where: str, *, oversubscribe: bool) -> None:
    machine = ground.machine
    if product.max_devices and devices > product.max_devices:
        many = "device" if product.max_devices == 1 else "devices"
        raise NoFit(
            f"{where}: strategy '{product.name}' runs on {product.max_devices} {many}, not on {devices}. "
            "Use another strategy, such as 'ddp'."
        )
    if devices > machine.devices and not oversubscribe:
        raise UserError(
            f"{where}: {devices} devices, but the platform has {machine.devices} "
            f"({machine.nodes} node(s) of {machine.devices_per_node} x {machine.device_model}). "
            f"Use at most {machine.devices}, or a platform with more (config/platforms/)."
        )


def _options(product: Product, given: Json, where: str) -> Json:
    """Those that differ from their defaults: what is said and what is left unsaid is then one run."""
    for name, value in given.items():
        option = product.options.get(name)
        if option is None:
            known = closest(name, product.options) if product.options else "It takes none."
            raise UserError(f"{where}: strategy '{product.name}' has no option '{name}'. {known}")
        if fault := _fault(option, value):
            raise UserError(f"{where}: strategy_options.{name} must be {fault}; found {shown(value)}.")
    defaults = {name: option.default for name, option in product.options.items()}
    # 2 and 2.0 are one number, and would be two texts
    typed = {name: float(value) if isinstance(defaults[name], float) else value for name, value in given.items()}
    return {name: value for name, value in typed.items() if value != defaults[name]}


def _fault(option: Option, value: Any) -> str:
    """What the value ought to be; empty where it is."""
    if option.choices:
        able = any(value == choice and type(value) is type(choice) for choice in option.choices)
        return "" if able else " or ".join(f"'{choice}'" for choice in option.choices)
    kind = type(option.default)
    if kind is bool:
        return "" if isinstance(value, bool) else "true or false"
    if kind in (int, float):
        # Python counts True as a 1
        number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        word = "a whole number" if kind is int else "a number"
        if option.minimum is None:
            return "" if number else word
        return "" if number and value >= option.minimum else f"{word} of at least {option.minimum:g}"
    return "" if kind is not str or isinstance(value, str) else "text"


def _refuse_objective(settings: RunSettings, ground: Ground, where: str) -> None:
    """Settings that are about images, for a model of text."""
    if ground.images:
        return
    default = RunSettings.model_fields
    for key in ("image_size", "memory_format", "resize_on", "evaluate_every"):
        value = getattr(settings, key)
        if value != default[key].default:
            raise UserError(
                f"{where}: {key} {value} is for image models; '{ground.workload.model}' trains on text. Leave it out."
            )


def _global_batch(
    settings: RunSettings, product: Product, devices: int, degrees: dict[str, int], options: Json, where: str
) -> int:
    if (settings.global_batch is None) == (settings.batch_per_device is None):
        raise UserError(f"{where}: give either global_batch (strong scaling) or batch_per_device (weak scaling).")
    data_ranks = math.prod(degrees.get(axis, 1) for axis in ("replicate", "shard"))
    if product.one_process:
        data_ranks = devices
    if settings.sampling == "replicated" and (product.one_process or not {"replicate", "shard"} & set(degrees)):
        raise UserError(
            f"{where}: sampling replicated is about data-parallel ranks, and strategy '{product.name}' has none. "
            "Leave it out, or use another strategy, such as 'ddp'."
        )
    micro_batches = _micro_batches(product, options)
    parts = data_ranks * settings.gradient_accumulation * micro_batches
    batch = settings.global_batch or int(settings.batch_per_device or 0) * devices
    if batch % parts == 0:
        return batch
    among = [f"{data_ranks} devices" if data_ranks == devices else f"{data_ranks} data-parallel ranks"]
    if settings.gradient_accumulation > 1:
        among.append(f"gradient_accumulation {settings.gradient_accumulation}")
    if micro_batches > 1:
        among.append(f"{micro_batches} micro-batches")
    told = " x ".join(among) + (f" = {parts} parts" if len(among) > 1 else "")
    if settings.global_batch is not None:
        near = max(parts, batch // parts * parts)
        raise UserError(
            f"{where}: global_batch {batch} does not divide among {told}. "
            f"Use a multiple of {parts}, such as {near} or {near + parts}."
        )
    step = parts // math.gcd(parts, devices)
    near = max(step, int(settings.batch_per_device or 0) // step * step)
    raise UserError(
        f"{where}: batch_per_device {settings.batch_per_device} on {devices} devices is a global batch of {batch}, "
        f"which does not divide among {told}. Use a multiple of {step}, such as {near} or {near + step}."
    )


def _micro_batches(product: Product, options: Json) -> int:
    """Parts that a pipeline cuts a rank's batch into."""
    option = product.options.get("micro_batches") if product.of_kind("pipeline") else None
    return int(options.get("micro_batches", option.default)) if option else 1


def _learning_rate_rule(settings: RunSettings, where: str) -> tuple[Any, int | None]:
    if settings.learning_rate_rule == "constant":
        return "constant", None
    if settings.learning_rate_batch is None:
        raise UserError(
            f"{where}: learning_rate_rule {settings.learning_rate_rule} needs learning_rate_batch, the global batch "
            f"that learning_rate {settings.learning_rate:g} is for, such as learning_rate_batch: "
            f"{settings.global_batch or settings.batch_per_device}."
        )
    return settings.learning_rate_rule, settings.learning_rate_batch


def _epoch_updates(settings: RunSettings, ground: Ground, batch: int, degrees: dict[str, int], where: str) -> int:
    """Updates in a pass over the data; 0 where nobody asks."""
    if settings.epochs is None and settings.evaluate_every != "epoch":
        return 0
    if ground.samples is None:
        asks, instead = ("epochs", "updates") if settings.epochs else ("evaluate_every: epoch", "a number of updates")
        raise UserError(
            f"{where}: {asks} needs the number of training samples, which is not known before the data are prepared. "
            f"Give {instead} instead."
        )
    if settings.sampling == "replicated":  # every rank goes through the data by itself
        batch //= math.prod(degrees.get(axis, 1) for axis in ("replicate", "shard"))
    return -(-ground.samples // batch)


def _updates(settings: RunSettings, epoch: int, where: str) -> int:
    if settings.epochs is not None and "updates" in settings.model_fields_set:
        raise UserError(f"{where}: give either updates or epochs.")
    # rounded, since 1.1 times 10 is a little more than 11 to a computer
    updates = settings.updates if settings.epochs is None else math.ceil(round(settings.epochs * epoch, 6))
    if updates < settings.min_warmup + 2:
        found = f"{updates} updates" if settings.epochs is None else f"{updates} updates ({settings.epochs:g} epochs)"
        raise UserError(
            f"{where}: {found} with min_warmup {settings.min_warmup} leave no window to measure. "
            f"Use at least {settings.min_warmup + 2} updates."
        )
    if updates > MAX_UPDATES:
        raise UserError(f"{where}: {settings.epochs:g} epochs are {updates} updates; at most {MAX_UPDATES} are run.")
    return updates


#: As many as the key `updates` takes.
MAX_UPDATES = 1_000_000


def _model_faults(product: Product, degrees: dict[str, int], ground: Ground) -> Iterator[str]:
    """Why a strategy cannot split this model so, as far as it is known without building it."""
    meta = WORKLOADS.get(ground.family or "")
    if ground.family is not None:
        for factor in product.factors:
            for need in factor.needs:
                if meta is None or need not in meta.offers:
                    able = [name for name, other in WORKLOADS.items() if need in other.offers]
                    yield (
                        f"strategy '{factor.name}' cannot split model '{ground.workload.model}' ({_LACKING[need]}). "
                        f"Models that can be: {', '.join(able)}."
                    )
    heads = attention_heads(ground.model)
    tp = degrees.get("tp", 1)
    if heads % tp:
        yield f"tp {tp} does not divide the model's {heads} attention heads. Use a degree that does."


_LACKING: dict[Need, str] = {
    "tensor_plan": "it does not say how its layers are cut",
    "sequence_plan": "it does not say what of it works on a part of the tokens",
    "pieces": "it does not say how it is called piece by piece",
    "attention": "its attention cannot be replaced",
}


def _instead(settings: RunSettings, product: Product, degrees: dict[str, int]) -> dict[str, tuple[str, Any]]:
    """Fields of the spec that follow from what the user said, and what was said, which is what a curve holds."""
    found: dict[str, tuple[str, Any]] = {"degrees": ("degrees", held_degrees(product, degrees, settings.degrees))}
    if settings.epochs is not None:
        found["updates"] = ("epochs", settings.epochs)
    if settings.evaluate_every == "epoch":
        found["evaluate_every"] = ("evaluate_every", "epoch")
    return found


def held_degrees(product: Product, degrees: dict[str, int], given: dict[str, int]) -> dict[str, int]:
    """The degrees that stay as the devices grow: those given, or where all are, all but the one that grows first."""
    if len(given) < len(degrees):
        return {axis: degree for axis, degree in degrees.items() if axis in given}
    return normal(product.axes, math.prod(degrees.values()), degrees)
