"""What one workload's figures and sentences need, read from a study's tables: curves, failures, break-evens.

No drawing here: the report reads its sentences from the same view the figures are drawn from.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven.figures import words
from breakeven.schema.errors import UserError
from breakeven.schema.status import Status

SCALINGS = ("weak", "strong", "free")
#: Series that a figure can show in colours of their own (``theme.PALETTE``).
LEGIBLE = 6
_TRUE = frozenset({"true", "1", "yes"})


@dataclass(frozen=True, slots=True)
class Failure:
    """Runs of one size that gave no time: ``runs`` of ``of`` ended with ``status``."""

    devices: int
    status: str
    runs: int
    of: int

    @property
    def text(self) -> str:
        status = self.status.replace("_", " ")
        return status if self.runs == self.of else f"{status}, {self.runs} of {self.of}"


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The primary criterion of one series. ``devices`` is the largest tested size that keeps ``threshold``."""

    series: str
    criterion: str
    threshold: float | None
    devices: float | None
    low: float | None
    high: float | None
    crossing: float | None
    note: str

    @property
    def has_interval(self) -> bool:
        return self.low is not None and self.high is not None and self.low != self.high


@dataclass(frozen=True, slots=True)
class Curve:
    """One series. ``rows``: efficiency.csv, sizes that have a time, ascending. ``repeats``: one row per run, the time
    quoted for the same work as ``rows`` (columns devices, time_s, speedup, efficiency); empty where no size has two."""

    series: str
    short: str
    """The series without the workload and the device, which stand beside it."""
    scaling: str
    device: str
    headline: bool
    reference_devices: int | None
    reference_label: str
    rows: pd.DataFrame
    repeats: pd.DataFrame
    failures: tuple[Failure, ...]
    one_pass: bool
    """Whether times are quoted for the work that the points ask for, one pass over the data."""

    @property
    def name(self) -> str:
        """The series without the scaling, which a panel or a sentence says for itself."""
        return self.short.removesuffix(f", {self.scaling}")

    @property
    def envelope(self) -> bool:
        """Whether this is the best of several submitters at each size rather than one submitter's own series."""
        return self.short.startswith("best ") and self.short.endswith(" per size")

    @property
    def sizes(self) -> list[int]:
        return [int(n) for n in self.rows["devices"]]

    @property
    def tried(self) -> list[int]:
        """Every size that was run, with a time or without."""
        return sorted({*self.sizes, *(f.devices for f in self.failures)})


@dataclass(frozen=True, slots=True)
class View:
    """One workload of one study."""

    study: str
    workload: str
    curves: tuple[Curve, ...]
    break_evens: tuple[BreakEven, ...]
    to_target: bool
    """Whether times are whole runs to a quality target rather than a fixed amount of work."""

    @property
    def scalings(self) -> list[str]:
        """In order; weak, strong and free scaling never share a panel."""
        return [s for s in SCALINGS if any(c.scaling == s for c in self.curves)]

    @property
    def headlines(self) -> list[Curve]:
        return [c for c in self.curves if c.headline]

    def legible(self) -> "View":
        """Where there are more series than a reader can tell apart: without those of one size, or if need be with the
        headline series alone. Published series stay: all but the headline are drawn faintly."""
        if self.scalings == ["free"] or not self.headlines:
            return self
        kept: Sequence[Curve] = self.curves
        if len({curve.name for curve in kept}) > LEGIBLE:
            kept = [curve for curve in kept if curve.headline or len(curve.tried) > 1]
        if len({curve.name for curve in kept}) > LEGIBLE:
            kept = self.headlines
        return replace(self, curves=tuple(kept))

    def break_even(self, series: str) -> BreakEven | None:
        return next((b for b in self.break_evens if b.series == series), None)


def read_table(path: Path) -> pd.DataFrame:
    """A CSV table; empty text stays empty text, empty numbers are NaN."""
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(_TEXT, str), encoding_errors="replace")
    except FileNotFoundError:
        raise UserError(f"{path}: no such table. The scaling rules write it; run snakemake.") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from None
    except pd.errors.EmptyDataError:
        raise UserError(f"{path}: the table is empty, without even a header line. {_ANEW}") from None
    except ValueError as error:
        raise UserError(f"{path}: the table is damaged: {str(error).strip()}. {_ANEW}") from None
    _check(table, path)
    for column in table.columns:
        if column in _TEXT:
            table[column] = table[column].fillna("").map(clean)
        elif not pd.api.types.is_numeric_dtype(table[column]):
            table[column] = table[column].map(clean, na_action="ignore")
    for column in ("headline", "primary", "kept"):
        if column in table:
            table[column] = table[column].astype(str).str.lower().isin(_TRUE)
    return table


def clean(text: object) -> object:
    """Text without characters that neither XML nor a figure may hold: control characters, lone surrogates."""
    return without_forbidden(_BREAKS.sub(" ", text)) if isinstance(text, str) else text


def without_forbidden(text: str) -> str:
    """Line breaks stay."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _check(table: pd.DataFrame, path: Path) -> None:
    """Raises UserError where a table lacks what is read from it, or holds words where numbers belong."""
    needed = _NEEDED.get(path.stem, frozenset())
    if missing := sorted(needed.difference(table.columns)):
        raise UserError(f"{path}: the table is damaged: column {', '.join(missing)} is missing. {_ANEW}")
    for column in [c for c in table.columns if c in _NUMBERS]:
        numbers = pd.to_numeric(table[column], errors="coerce").astype(float)
        bad = table[numbers.isna() & table[column].notna()]
        if len(bad):
            raise UserError(
                f"{path}: the table is damaged: {column} must be a number; found {bad[column].iloc[0]!r}. {_ANEW}"
            )
        if column == "devices" and path.stem in _DEVICES_KNOWN and not (numbers >= 1).all():
            raise UserError(f"{path}: the table is damaged: a row has no number of devices. {_ANEW}")
        table[column] = numbers if len(bad) or table[column].dtype == object else table[column]


_ANEW = "Delete it and run snakemake to make it anew."
_BREAKS = re.compile(r"[\t\n\r]+")
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
#: Tables whose every row has a number of devices.
_DEVICES_KNOWN = ("points", "efficiency")
_NUMBERS = frozenset(
    """
    devices nodes repeat time_s samples target_work time_factor global_batch repeats runs_not_ok time_s_low time_s_high
    work rate_per_device speedup speedup_low speedup_high efficiency efficiency_low efficiency_high efficiency_stat
    efficiency_sys device_hours reference_devices threshold devices_low devices_high crossing step_time_ms
    step_time_ms_p10 step_time_ms_p90 throughput data_wait_share sync_wait_share peak_rss_gib peak_reserved_gib
    loss_first loss_last warmup_dropped elapsed_s busy_cores error_rank updates max_abs_loss_difference
    step_rate training_share time_quantum_s reference_samples energy_kj price_per_device_hour cost
    efficiency_stat_low efficiency_stat_high efficiency_sys_low efficiency_sys_high efficiency_step efficiency_overhead
    efficiency_residual time_reference_s efficiency_reference
    accelerators_per_node runs runs_required runs_converged runs_compliant scaling_factor time_to_train_min
    time_to_train_strict_min time_raw_min time_min_min time_max_min samples_to_converge time_reference_min
    throughput_per_device step_throughput evaluation_min startup_min samples_mean samples_sd batch_min batch_max
    samples_min critical_batch critical_batch_low critical_batch_high rmse_percent
    step_time_ms_low step_time_ms_high data_bound_share data_bound_share_low data_bound_share_high peak_memory_gib
    accuracy epochs_to_target host_bound_share
    """.split()  # noqa: SIM905
)
#: What is read from each table in any case.
_NEEDED = {
    name: frozenset(columns.split())
    for name, columns in {
        "points": """study workload series scaling device devices repeat status time_s samples target_work aggregate
            time_factor headline label source""",
        "efficiency": """study workload series scaling headline device devices nodes global_batch label repeats
            runs_not_ok time_s time_s_low time_s_high work unit rate_per_device speedup speedup_low speedup_high
            efficiency efficiency_low efficiency_high efficiency_stat efficiency_sys device_hours reference_devices
            reference_label""",
        "breakeven": """workload series headline criterion threshold devices devices_low devices_high crossing primary
            note""",
        "runs": "run_id series workload devices repeat status",
        "equivalence": "run_id",
        "comparison": """study workload strategy devices setting value baseline held headline speedup speedup_low
            speedup_high step_time_ms peak_memory_gib status note""",
        "scores": """round benchmark workload submitter system accelerator_family devices division system_status
            global_batch scaling_factor time_to_train_min time_min_min time_max_min samples_to_converge device_hours
            duplicate_of note""",
        "reference": "round benchmark workload global_batch runs samples_mean samples_sd kept",
        "critical_batch": """round benchmark workload of points batch_min batch_max samples_min critical_batch
            critical_batch_low critical_batch_high rmse_percent note""",
    }.items()
}
#: Columns of words, also where all of a table's cells happen to be empty or look like numbers.
_TEXT = frozenset(
    """
    study workload series scaling device unit label reference_label criterion note status aggregate source driver
    run_id reference_run_id strategy error log host device_model torch_version measure_sources faults
    round benchmark submitter system system_name accelerator accelerator_family division system_status duplicate_of
    log_months result_id repository commit strict_note step_throughput_note step_rate_note decomposition_note of
    kind file detail sweep setting value baseline held memory_of
    """.split()  # noqa: SIM905 - a list of words reads better than forty quotes
)


def workloads(efficiency: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(efficiency["workload"]))


def view(workload: str, points: pd.DataFrame, efficiency: pd.DataFrame, breakeven: pd.DataFrame) -> View:
    mine = efficiency[efficiency["workload"] == workload]
    if mine.empty:
        known = ", ".join(workloads(efficiency)) or "none"
        raise UserError(f"No workload {workload!r} in the efficiency table. It has: {known}.")
    runs = points[points["workload"] == workload]
    curves = [_curve(series, mine[mine["series"] == series], runs) for series in dict.fromkeys(mine["series"])]
    primary = breakeven[(breakeven["workload"] == workload) & breakeven["primary"]]
    return View(
        study=str(mine["study"].iloc[0]),
        workload=workload,
        curves=tuple(sorted(curves, key=lambda c: not c.headline)),
        break_evens=tuple(_break_even(row) for _, row in primary.iterrows()),
        to_target=bool((runs["aggregate"] == "olympic").any()),
    )


def _curve(series: str, rows: pd.DataFrame, points: pd.DataFrame) -> Curve:
    first = rows.iloc[0]
    runs = points[points["series"] == series]
    timed = rows[rows["time_s"].notna()].sort_values("devices", ignore_index=True)
    reference = rows["reference_devices"].dropna()
    return Curve(
        series=series,
        short=short_name(series, str(first["workload"]), str(first["device"])),
        scaling=str(first["scaling"]),
        device=str(first["device"]),
        headline=bool(first["headline"]),
        reference_devices=int(reference.iloc[0]) if len(reference) else None,
        reference_label=str(first["reference_label"]),
        rows=timed,
        repeats=_repeats(runs, timed),
        failures=tuple(_failures(runs)),
        one_pass=bool(runs["target_work"].notna().any()),
    )


def short_name(series: str, workload: str, device: str) -> str:
    """``BERT, best H100-SXM submission per size`` of BERT on H100-SXM is ``best submission per size``.

    A series that is no more than its workload and scaling keeps the workload for a name.
    """
    without = series.removeprefix(f"{workload}, ")
    without = without if device in ("", words.DEVICE) else without.replace(device, " ")
    short = re.sub(r"\s+", " ", without).strip(" ,")
    return series if short in ("", *SCALINGS) else short


def _repeats(runs: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Each run's own time for the work its size is quoted for, and the speed-up and efficiency that time would give."""
    columns = ["devices", "time_s", "speedup", "efficiency"]
    ok = runs[(runs["status"] == Status.OK) & runs["time_s"].notna()]
    counts = ok["devices"].value_counts()
    ok = ok[ok["devices"].isin(counts[counts > 1].index)]
    joined = ok.merge(rows, on="devices", suffixes=("", "_size"))
    if joined.empty:
        return pd.DataFrame(columns=columns, dtype=float)
    quoted = (joined["work"] / joined["samples"]).where(joined["aggregate"] == "rate", 1.0)
    time_s = joined["time_s"] * joined["time_factor"] * quoted
    gain = joined["time_s_size"] / time_s
    return pd.DataFrame(
        {
            "devices": joined["devices"],
            "time_s": time_s,
            "speedup": joined["speedup"] * gain,
            "efficiency": joined["efficiency"] * gain,
        }
    )


def _failures(runs: pd.DataFrame) -> Iterable[Failure]:
    bad = runs[runs["status"] != Status.OK]
    for (devices, status), group in bad.groupby(["devices", "status"]):
        yield Failure(int(devices), str(status), len(group), int((runs["devices"] == devices).sum()))  # type: ignore[call-overload]


def _break_even(row: "pd.Series[Any]") -> BreakEven:
    def number(name: str) -> float | None:
        value = pd.to_numeric(row[name])
        return None if pd.isna(value) else float(value)

    return BreakEven(
        series=str(row["series"]),
        criterion=str(row["criterion"]),
        threshold=number("threshold"),
        devices=number("devices"),
        low=number("devices_low"),
        high=number("devices_high"),
        crossing=number("crossing"),
        note=str(row["note"]),
    )
