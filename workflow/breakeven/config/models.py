"""The pydantic models of everything a user writes: the one source of defaults, schema and documentation."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from breakeven.config.text import MAX_NAME, NAME, ROUND, Entry, Line, Title, commit, one_line, round_name
from breakeven.config.values import JsonKeys
from breakeven.schema.spec import LearningRateRule, MemoryFormat, Optimizer, Precision, ResizeOn, Sampling


def _count_or_auto(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """One message instead of one for each half of "or"."""
    try:
        return check(value)
    except ValidationError:
        raise ValueError("should be a whole number from 1 to 65536, or auto") from None


def _updates_or_epoch(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        raise ValueError("should be a whole number from 0 to 1000000, or epoch") from None


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _unsaid(default: Any) -> Callable[[Any], Any]:
    """A key without a value (``source:``) is None to YAML and nothing said to a person."""
    return lambda value: default if value is None else value


Strict = ConfigDict(extra="forbid", frozen=True)
#: A name that may become a folder: a study, a sweep.
Name = Annotated[str, Field(pattern=f"^{NAME.pattern}$", max_length=MAX_NAME)]
# Strict: `true` is no number. The upper bounds are far above any use and stop a slip from starting a year's work.
Count = Annotated[int, Field(strict=True, ge=1, le=65_536)]
CountOrAuto = Annotated[Count | Literal["auto"], WrapValidator(_count_or_auto)]
Batch = Annotated[int, Field(strict=True, ge=1, le=2**24)]
Updates = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Epochs = Annotated[float, Field(strict=True, gt=0, le=1_000_000, allow_inf_nan=False)]
#: A share.
Accuracy = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
#: Not strict: YAML takes 1e-3 for text.
LearningRate = Annotated[float, Field(gt=0, allow_inf_nan=False), BeforeValidator(_no_flag)]
Flag = Annotated[bool, Field(strict=True)]
Workers = Annotated[int, Field(strict=True, ge=0, le=1024)]
Prefetch = Annotated[int, Field(strict=True, ge=1, le=1024)]
ImageSize = Annotated[int, Field(strict=True, ge=1, le=8192)]
EvaluateEvery = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=1_000_000)] | Literal["epoch"], WrapValidator(_updates_or_epoch)
]
#: What it names is checked where the sweep is expanded, with a hint at what there is.
Strategy = Annotated[str, Field(min_length=1, max_length=200)]
Degrees = Annotated[dict[str, Count], BeforeValidator(_unsaid({}))]
#: Currency is the user's own: one in all files. The bound is far above any device's price.
Price = Annotated[float, Field(strict=True, gt=0, le=1_000_000, allow_inf_nan=False)]
#: A round of MLPerf Training.
RoundName = Annotated[str, Field(json_schema_extra={"pattern": f"^{ROUND.pattern}$"}), BeforeValidator(round_name)]
Commit = Annotated[str, Field(json_schema_extra={"pattern": "^[0-9a-f]{40}$"}), BeforeValidator(commit)]
#: A path or URL that may be left empty.
Place = Annotated[str, Field(max_length=1000), AfterValidator(one_line), BeforeValidator(_unsaid(""))]


class Criterion(BaseModel):
    """When a further device stops paying."""

    model_config = Strict
    efficiency: float = Field(
        default=0.7,
        gt=0,
        le=1,
        allow_inf_nan=False,
        description="The break-even is the largest tested size whose efficiency is at least this.",
    )


class Mlperf(BaseModel):
    """Published results of MLPerf Training: which rounds, and where they are read from."""

    model_config = Strict
    rounds: Annotated[list[RoundName], BeforeValidator(_unsaid([]))] = Field(
        default_factory=list,
        description="Rounds to read from `source` and to score, such as `[v4.1, v5.1]`; default: those that the "
        "studies name. A round that a study alone names is read from the facts where the project has them.",
    )
    source: Place = Field(
        default="",
        description="Where the results of `rounds` are read from: `facts` (tables of every run that come with the "
        "project; the default), `repository` (a clone of the round's public one), or a folder that holds for every "
        "round a tree `<round>/` or an archive `training_results_<round>.tar.xz` (or `.tar.gz`, `.tar`).",
    )
    repository: Place = Field(
        default="",
        description="URL to clone, with `{round}` where the round's name stands; default: the round's public one.",
    )
    commits: Annotated[dict[RoundName, Commit], BeforeValidator(_unsaid({}))] = Field(
        default_factory=dict,
        description="Commits to clone (40 hex digits), by round; default: the one that the round's rules pin.",
    )
    rules: Place = Field(
        default="",
        description="A folder of rule files of your own (`rounds/`, `benchmarks/`), which add a round or a benchmark.",
    )

    @model_validator(mode="after")
    def _something_is_cloned(self) -> "Mlperf":
        if (self.repository or self.commits) and self.source in ("", "facts"):
            raise ValueError("'repository' and 'commits' say what is cloned: they need 'source: repository'")
        return self


class Config(BaseModel):
    """`config/config.yaml`: what `snakemake` builds."""

    model_config = Strict
    studies: list[Entry] = Field(
        min_length=1,
        description="Names of files in `config/studies/` (without `.yaml`), or paths of CSV tables of your timings.",
    )
    criterion: Criterion = Field(default_factory=Criterion, description="The break-even criterion of every study.")
    mlperf: Annotated[Mlperf, BeforeValidator(_unsaid({}))] = Field(
        default_factory=Mlperf, description="Published results: rounds and their source."
    )
    check_platform: Name = Field(
        default="this-machine",
        description="What `snakemake equivalence` and `snakemake selftest` run on: a file in `config/platforms/`. On a "
        "cluster, the one that names its nodes.",
    )
    order_seed: int = Field(
        default=0, strict=True, description="Seed of the random order in which repeats are measured."
    )


class Platform(BaseModel):
    """`config/platforms/<name>.yaml`: facts of a machine."""

    model_config = Strict
    title: Title = Field(description="How the report names the machine.")
    device_kind: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="`auto` looks at this machine: CUDA devices where there are some, else CPU cores."
    )
    device_model: Line = Field(
        default="auto", description="The device's name as its driver tells it; `auto` reads it from this machine."
    )
    devices_per_node: CountOrAuto = Field(
        default="auto", description="Accelerators in one node, or CPU cores on a machine without any."
    )
    nodes: Count = Field(default=1, description="Nodes that one run may use.")
    price_per_device_hour: Price | None = Field(
        default=None, description="What a device costs per hour, in a currency of your own: gives the costs of a size."
    )


#: A data set of the hub, ``org/name``.
HubId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$", max_length=200)]
#: A column or a split of one.
Part = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(one_line)]


class Data(BaseModel):
    """What a workload trains on."""

    model_config = Strict
    name: str = Field(
        default="",
        description="A data set that comes with the project: `digits` (8 x 8, resized), `digits-large` (drawn at the "
        "image size), `chat-en`.",
    )
    file: Place = Field(
        default="",
        description='A JSONL file of your own: one `{"prompt": ..., "response": ...}` or `{"text": ...}` a line.',
    )
    folder: Place = Field(
        default="",
        description="A folder of your own images, `<folder>/<class>/<file>` (a fifth of each class is held out), or "
        "with a split of your own `<folder>/train/<class>/<file>` and likewise `test`, `val` or `validation`.",
    )
    hub: HubId | None = Field(default=None, description="A data set of images on the hub, `org/name`.")
    revision: Commit | None = Field(default=None, description="Its commit (40 hex digits); required for one.")
    image: Part = Field(default="image", description="Its column of images.")
    label: Part = Field(default="label", description="Its column of labels.")
    train: Part = Field(default="train", description="Its split to train on.")
    test: Part = Field(default="test", description="Its split to hold out.")
    samples: Batch | None = Field(
        default=None, description="Images used of each split, at most (`folder` and `hub`); default: all."
    )

    @model_validator(mode="after")
    def _one_source(self) -> "Data":
        sources = [key for key in ("name", "file", "folder", "hub") if getattr(self, key)]
        if len(sources) != 1:
            raise ValueError(
                "give one of 'name' (a data set of the project), 'file' (a JSONL file of yours), 'folder' (a folder of "
                "your images) and 'hub' (a data set of images on the hub)"
            )
        source = sources[0]
        for key in ("revision", "image", "label", "train", "test"):
            if source != "hub" and key in self.model_fields_set:
                raise ValueError(f"'{key}' is about a data set of the hub: it needs 'hub'")
        if source not in ("folder", "hub") and self.samples is not None:
            raise ValueError("'samples' needs 'folder' or 'hub'")
        if source == "hub" and self.revision is None:
            raise ValueError("'hub' needs 'revision', the commit (40 hex digits) that the hub shows under 'History'")
        if self.train == self.test:
            raise ValueError(f"'train' and 'test' are both '{self.train}': what is held out must be another split")
        return self


class WorkloadConfig(BaseModel):
    """A model and its objective."""

    model_config = Strict
    title: Title = Field(default="", description="How figures and the answer name it; default: the model's name.")
    model: str = Field(
        description="A family built from a config (`mobilenet_v2`, `resnet`, `vit`, `llama`), a hub id (`org/name`) or "
        "a model folder."
    )
    revision: str | None = Field(default=None, description="Commit of a hub model (40 hex digits); required for one.")
    config: JsonKeys = Field(
        default_factory=dict, description="Overrides of the family's model config, by transformers' own names."
    )
    technique: str = Field(default="full", description="`full` or `lora`.")
    technique_options: JsonKeys = Field(
        default_factory=dict, description="For `lora`: `rank`, `alpha`, `target_modules`."
    )
    data: Data | None = Field(default=None, description="Default: the family's own small data set.")
    sequence_length: int | None = Field(
        default=None, strict=True, ge=1, le=2**22, description="Tokens per sample (language models; default 128)."
    )
    image_size: ImageSize | None = Field(
        default=None,
        description="Pixels per side (image models; default 32, and of a model with weights its own, else 224).",
    )
    trust_remote_code: bool = Field(
        default=False, description="Run Python code that comes with a hub model. Off unless you trust its authors."
    )


class RunSettings(BaseModel):
    """One cell of a sweep. Every key may stand in `defaults`, in a `grid` (as a list) or in a row of `cases`."""

    model_config = Strict
    strategy: Strategy = Field(
        default="ddp",
        description="How the work is split: a file of `workflow/breakeven/strategies/`, such as `single`, `ddp`, "
        "`fsdp` or `tp`, or a product of some, such as `fsdp*tp`.",
    )
    strategy_options: JsonKeys = Field(
        default_factory=dict, description="Options of the strategy; of a product, of all its factors."
    )
    degrees: Degrees = Field(
        default_factory=dict,
        description="Of a product, into how many parts each axis (`pp`, `replicate`, `shard`, `cp`, `tp`) splits the "
        "devices; one may be left out and follows from the device count. Those given stay equal along a curve.",
    )
    devices: CountOrAuto = Field(
        default="auto",
        description="Device count; `auto` is 1, 2, 4, ... up to `max_devices`, where strategy, degrees and model fit.",
    )
    global_batch: Batch | None = Field(
        default=None,
        description="Samples per update over all devices: strong scaling. Divided among the data-parallel ranks.",
    )
    batch_per_device: Batch | None = Field(
        default=None,
        description="Weak scaling: the global batch is this times the device count, whatever the strategy splits.",
    )
    sampling: Sampling = Field(
        default="distributed",
        description="Whether each data-parallel rank reads its own part of a global batch, or (`replicated`) all read "
        "the same, as without a distributed sampler: then one rank's samples alone are work done.",
    )
    gradient_accumulation: Batch = Field(
        default=1,
        description="Parts of a rank's batch that are run one after the other before gradients are exchanged.",
    )
    precision: Precision = Field(
        default="fp32",
        description="`fp64`, `fp32` and `tf32` compute in that type; `fp16` and `bf16` by autocast over fp32 weights.",
    )
    optimizer: Optimizer = Field(default="adamw", description="Optimiser.")
    learning_rate: LearningRate = Field(default=1e-3, description="Learning rate, at `learning_rate_batch`.")
    learning_rate_rule: LearningRateRule = Field(
        default="constant",
        description="How the learning rate follows the global batch: not, in proportion, or by the square root.",
    )
    learning_rate_batch: Batch | None = Field(
        default=None, description="The global batch that `learning_rate` is for; needed by `linear` and `sqrt`."
    )
    activation_checkpointing: Flag = Field(
        default=False, description="Every block keeps its input alone and is run again in the backward pass."
    )
    compile: Flag = Field(default=False, description="`torch.compile`, block by block.")
    memory_format: MemoryFormat = Field(
        default="contiguous", description="Images as NCHW (`contiguous`) or NHWC (`channels_last`)."
    )
    workers: Workers = Field(default=0, description="Processes of each rank that load data; 0: the rank itself.")
    prefetch_factor: Prefetch = Field(default=2, description="Batches that each worker keeps ready.")
    persistent_workers: Flag = Field(default=False, description="Workers outlive an epoch.")
    pin_memory: Flag | None = Field(
        default=None, description="Batches lie in pinned memory; default: where there is a device to copy to."
    )
    non_blocking: Flag | None = Field(
        default=None, description="The copy to the device does not wait; default: where there is a device to copy to."
    )
    resize_on: ResizeOn = Field(
        default="device",
        description="Where small images are made large: after the copy to the device, or by who loads them (`host`).",
    )
    synthetic: Flag = Field(
        default=False,
        description="The same few batches, already on the device: what is left is the device's own time.",
    )
    data: Part | None = Field(
        default=None, description="A data set that comes with the project, in place of the workload's."
    )
    image_size: ImageSize | None = Field(
        default=None, description="Pixels per side, in place of the workload's (image models)."
    )
    updates: Updates = Field(default=40, description="Optimiser updates per run, warm-up included.")
    epochs: Epochs | None = Field(
        default=None,
        description="Passes over the training data, in place of `updates`, where the data's size is known.",
    )
    min_warmup: Updates = Field(default=10, description="Updates dropped at least; a stationarity rule may drop more.")
    evaluate_every: EvaluateEvery = Field(
        default=0,
        description="Updates between measurements of the accuracy on held-out images, outside the measured time; "
        "`epoch`: after each pass over the data; 0: never. Not with `pp`, where no rank has the whole model.",
    )
    seed: int = Field(default=0, strict=True, ge=0, le=2**63 - 1, description="Seed of weights and data order.")


class Sweep(BaseModel):
    """A set of cells: a `grid` (every combination) or `cases` (row by row)."""

    model_config = Strict
    grid: JsonKeys | None = Field(default=None, description="Keys of a run with lists of values.")
    cases: list[JsonKeys] | None = Field(default=None, description="Rows of keys of a run.")
    oversubscribe: bool = Field(
        default=False,
        description="Allow more ranks than devices: for equality of losses only, never timed, never in a curve.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> "Sweep":
        if (self.grid is None) == (self.cases is None):
            raise ValueError("give either 'grid' (every combination) or 'cases' (row by row)")
        return self


class MeasuredStudy(BaseModel):
    """Training measured on a platform."""

    model_config = Strict
    source: Literal["measured"] = Field(description="Marks a measured study.")
    title: Title = Field(description="The study's heading in the report.")
    platform: Name = Field(default="this-machine", description="A file in `config/platforms/`.")
    workload: WorkloadConfig = Field(description="What is trained.")
    defaults: JsonKeys = Field(default_factory=dict, description="Keys of a run that hold for all sweeps.")
    sweeps: dict[Name, Sweep] = Field(min_length=1, description="What is swept, by name.")
    exclude: list[JsonKeys] = Field(
        default_factory=list, description="Cells to leave out: every row's keys must match."
    )
    repeats: int = Field(
        default=3,
        strict=True,
        ge=1,
        le=1000,
        description="Separate processes per cell, in blocked random order.",
    )
    max_devices: Count = Field(default=8, description="Where `devices: auto` ends.")
    headline: list[Name] = Field(
        default_factory=list,
        description="Sweeps whose series make the curves and the answer; default: all. The others compare settings.",
    )
    target_accuracy: Accuracy | None = Field(
        default=None, description="Accuracy on held-out images (0 to 1) to which updates and samples are counted."
    )
    launcher: Literal["auto", "fork", "torchrun"] = Field(
        default="auto",
        description="How ranks are started: by a server that has imported everything (`fork`) or anew for every run "
        "(`torchrun`); `auto` is `fork` on CPU cores outside Slurm, `torchrun` elsewhere.",
    )
    timeout_min: int = Field(
        default=10,
        strict=True,
        ge=1,
        le=100_000,
        description="Minutes after which a run is ended as `timeout`.",
    )


class MlperfStudy(BaseModel):
    """Published results of MLPerf Training."""

    model_config = Strict
    source: Literal["mlperf"] = Field(description="Marks a study of published results.")
    title: Title = Field(description="The study's heading in the report.")
    round: RoundName = Field(default="v4.1", description="The round, such as `v5.1`.")
    family: Line = Field(default="H100-SXM", description="The accelerator family whose sizes make the curve.")
    submitter: Line = Field(
        default="auto",
        description="Whose systems make the curve that the answer is drawn from; `auto`: of each workload, the "
        "submitter whose sizes span most.",
    )
    price_per_device_hour: Price | None = Field(
        default=None, description="What a device costs per hour, in a currency of your own: gives the costs of a size."
    )
    workloads: dict[str, Title] = Field(
        min_length=1,
        description="MLPerf benchmark names, as the round's folders or as other rounds name them, and how figures and "
        "the answer name them.",
    )


class PointsStudy(BaseModel):
    """A table of timings from elsewhere."""

    model_config = Strict
    source: Literal["points"] = Field(description="Marks a study of a table.")
    title: Title = Field(description="The study's heading in the report.")
    table: str = Field(description="CSV with the columns devices, time_s (or time_min), work and, if any, repeat.")
    workload: Title = Field(default="", description="What was trained; default: the study's name.")
    device: Title = Field(default="device", description="The word for one device, for example `A100`.")


Study = Annotated[MeasuredStudy | MlperfStudy | PointsStudy, Field(discriminator="source")]
