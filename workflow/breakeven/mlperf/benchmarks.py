"""What the rules of MLPerf Training say of each benchmark, as data."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark of a round, by the name of its folder in the results repository."""

    name: str
    required_runs: int
    """Runs a submission must hold; more than one of them failed, and it has no score."""
    samples_key: str
    """The entry of an ``eval_accuracy`` line's metadata that says how much has been trained on."""
    samples_per_unit: int = 1
    """Samples in one unit of ``samples_key``."""
    converged: Literal["last evaluation", "first passing checkpoint"] = "last evaluation"
    """Which evaluation is the one that reached the target."""


#: Images in the training split of OpenImages as ssd uses it: one epoch.
SSD_EPOCH_SAMPLES = 1_170_301

#: stable_diffusion converges where both hold for one checkpoint.
FID_AT_MOST = 90.0
CLIP_AT_LEAST = 0.15

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        # The name misleads: in bert's logs ``epoch_num`` is a count of samples.
        Benchmark(name="bert", required_runs=10, samples_key="epoch_num"),
        Benchmark(name="llama2_70b_lora", required_runs=10, samples_key="samples_count"),
        # Evaluations count completed epochs. The next epoch has begun by then (evaluation is asynchronous) and is cut,
        # so counting ``epoch_start`` would give one too many.
        Benchmark(name="ssd", required_runs=5, samples_key="epoch_num", samples_per_unit=SSD_EPOCH_SAMPLES),
        # Checkpoints are evaluated after training, in any order, and beyond the one that passed.
        Benchmark(
            name="stable_diffusion",
            required_runs=10,
            samples_key="samples_count",
            converged="first passing checkpoint",
        ),
    )
}
