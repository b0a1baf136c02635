"""Scaling tables of MLPerf Training v4.1 on H100-SXM, worked out apart from this package, to every digit they show.

The whole way is under test: facts → scores → points → efficiency.
"""

from pathlib import Path

import pandas as pd
import pytest

from breakeven.mlperf.score import submissions
from breakeven.mlperf.table import read_facts
from breakeven.points.mlperf import mlperf_points
from breakeven.scaling.breakeven import breakeven_table
from breakeven.scaling.efficiency import efficiency_table

FACTS = Path(__file__).resolve().parents[2] / "workflow" / "breakeven" / "mlperf" / "facts" / "v4.1_runs.csv"

TITLES = {
    "bert": "BERT",
    "llama2_70b_lora": "Llama 2 70B LoRA",
    "ssd": "RetinaNet",
    "stable_diffusion": "Stable Diffusion",
}

# x: samples per second and GPU over the whole timed run; D: samples to converge as logged. E_stat counts the scaling
# factor too, so it is not the ratio of two D where the factors differ.
COLUMNS = ["GPUs", "submitter", "GBS", "T_min", "S", "E", "GPU_h", "x", "D", "E_stat", "E_sys"]
BEST_PER_SIZE = {
    "BERT": """
        4     Dell        576    10.188  1.00  1.000  0.68  992.5  2.343e+06  1.000  1.000
        8     Supermicro  768     5.394  1.89  0.944  0.72  943.7  2.418e+06  0.993  0.951
        16    Lambda      768     3.289  3.10  0.774  0.88  774.1  2.436e+06  0.993  0.780
        48    Clemson     6912    1.333  7.64  0.637  1.07  957.2  3.674e+06  0.660  0.965
        64    NVIDIA      4608    0.898  11.34 0.709  0.96  834.2  2.877e+06  0.843  0.841
        3472  NVIDIA      13888   0.119  85.42 0.098  6.90  218.8  5.437e+06  0.446  0.220
        """,
    "Llama 2 70B LoRA": """
        4     Fujitsu     8    58.421  1.00   1.000  3.89   0.2267  3120       1.000  1.000
        8     Supermicro  8    27.536  2.12   1.061  3.67   0.2405  3120       1.000  1.061
        16    Lambda      8    16.710  3.50   0.874  4.46   0.2154  3456       0.920  0.950
        32    Lambda      8     8.217  7.11   0.889  4.38   0.2099  3312       0.960  0.926
        64    NVIDIA      8     4.573  12.77  0.798  4.88   0.1831  3216       0.988  0.808
        128   Oracle      16    3.066  19.06  0.595  6.54   0.1712  4032       0.788  0.755
        512   Oracle      64    2.065  28.29  0.221  17.62  0.1415  8976       0.354  0.624
        1024  NVIDIA      128   1.188  49.19  0.192  20.27  0.1544  1.123e+04  0.282  0.681
        """,
    "RetinaNet": """
        4     Fujitsu  256   69.812  1.00   1.000  4.65   279.4  4.681e+06  1.000  1.000
        8     NVIDIA   256   35.700  1.96   0.978  4.76   273.2  4.681e+06  1.000  0.978
        32    Dell     512   12.088  5.78   0.722  6.45   252.1  5.852e+06  0.800  0.902
        64    NVIDIA   256    5.996  11.64  0.728  6.40   203.3  4.681e+06  1.000  0.728
        2528  NVIDIA   2528   0.778  89.73  0.142  32.78  85.95  1.014e+07  0.462  0.308
        """,
    "Stable Diffusion": """
        4     Fujitsu  256   59.490  1.00   1.000  3.97   143.4  2.048e+06  1.000  1.000
        8     Dell     256   31.722  1.88   0.938  4.23   134.5  2.048e+06  1.000  0.938
        16    Lambda   512   22.802  2.61   0.652  6.08   116.9  2.56e+06   0.800  0.815
        32    Lambda   1024  14.222  4.18   0.523  7.58   112.5  3.072e+06  0.667  0.784
        64    NVIDIA   1024   6.152  9.67   0.604  6.56   124.6  2.944e+06  0.696  0.869
        512   NVIDIA   2048   1.706  34.88  0.272  14.56  76.39  3.904e+06  0.512  0.533
        1024  NVIDIA   2048   1.372  43.36  0.169  23.42  47.49  3.968e+06  0.512  0.331
        """,
}

# Devices, T in minutes, E, E_stat, E_sys, each series against its own smallest size.
ONE_SUBMITTER = {
    ("BERT", "Clemson", "A100-PCIe"): """
        16  17.989  1.000  1.000  1.000
        32   9.113  0.987  0.996  0.991
        """,
    ("BERT", "Dell", "H100-SXM"): """
        4  10.188  1.000  1.000  1.000
        8   5.509  0.925  0.974  0.950
        """,
    ("BERT", "Lambda", "H100-SXM"): """
        16  3.289  1.000  1.000  1.000
        64  0.946  0.869  0.835  1.041
        """,
    ("BERT", "NVIDIA", "H100-SXM"): """
        8     5.469  1.000  1.000  1.000
        64    0.898  0.761  0.886  0.859
        3472  0.119  0.106  0.469  0.225
        """,
    ("Llama 2 70B LoRA", "Dell", "H100-SXM"): """
        4   58.480  1.000  1.000  1.000
        8   27.803  1.052  1.000  1.052
        16  19.703  0.742  0.933  0.796
        32   9.510  0.769  1.000  0.769
        64   5.052  0.724  1.000  0.724
        """,
    ("Llama 2 70B LoRA", "Lambda", "H100-SXM"): """
        16  16.710  1.000  1.000  1.000
        32   8.217  1.017  1.043  0.974
        """,
    ("Llama 2 70B LoRA", "NVIDIA", "H100-SXM"): """
        8     27.928  1.000  1.000  1.000
        64     4.573  0.763  1.000  0.763
        1024   1.188  0.184  0.286  0.644
        """,
    ("Llama 2 70B LoRA", "Oracle", "H100-SXM"): """
        64   4.750  1.000  1.000  1.000
        128  3.066  0.775  0.798  0.971
        512  2.065  0.288  0.358  0.803
        """,
    ("RetinaNet", "Dell", "H100-SXM"): """
        4   70.133  1.000  1.000  1.000
        8   36.319  0.965  1.000  0.965
        32  12.088  0.725  0.800  0.907
        64   6.198  0.707  1.000  0.707
        """,
    ("RetinaNet", "NVIDIA", "H100-SXM"): """
        8     35.700  1.000  1.000  1.000
        64     5.996  0.744  1.000  0.744
        2528   0.778  0.145  0.462  0.315
        """,
    ("Stable Diffusion", "Dell", "H100-SXM"): """
        4  60.562  1.000  1.000  1.000
        8  31.722  0.955  1.031  0.926
        """,
    ("Stable Diffusion", "Google", "TPU-v5p"): """
        8     49.677  1.000  1.000  1.000
        64     9.642  0.644  0.721  0.893
        512    3.292  0.236  0.721  0.327
        1024   2.447  0.159  0.500  0.317
        """,
    ("Stable Diffusion", "Lambda", "H100-SXM"): """
        16  22.802  1.000  1.000  1.000
        32  14.222  0.802  0.833  0.962
        """,
    ("Stable Diffusion", "NVIDIA", "H100-SXM"): """
        8     33.967  1.000  1.000  1.000
        64     6.152  0.690  0.761  0.907
        512    1.706  0.311  0.560  0.556
        1024   1.372  0.193  0.560  0.346
        """,
}

# Devices, E_step, E_overhead, E_residual of NVIDIA's series; "-" where a log lacks what it takes. BERT's on 8 and 64
# devices, of 2023, time no evaluation and state a throughput that includes it.
WHERE_E_SYS_WENT = {
    "BERT": """
        8     -  -  -
        64    -  -  -
        3472  -  -  -
        """,
    "Llama 2 70B LoRA": """
        8     1.000  1.000  1.000
        64    0.844  0.938  0.964
        1024  0.839  0.899  0.853
        """,
    "RetinaNet": """
        8     1.000  1.000  1.000
        64    0.747  0.997  1.000
        2528  0.360  0.889  0.982
        """,
    "Stable Diffusion": """
        8     1.000  1.000  1.000
        64    0.925  1.000  0.981
        512   0.593  1.000  0.937
        1024  0.366  1.000  0.945
        """,
}

# 95 % of E, E_stat and E_sys of NVIDIA's largest size, low and high. E_sys is known to a percent or two, the samples
# that a target costs to about ten.
INTERVALS = {
    "BERT": "3472  0.098 0.111  0.433 0.494  0.224 0.226",
    "Llama 2 70B LoRA": "1024  0.174 0.194  0.271 0.301  0.639 0.647",
    "RetinaNet": "2528  0.129 0.161  0.405 0.514  0.313 0.320",
    "Stable Diffusion": "1024  0.172 0.215  0.501 0.620  0.342 0.347",
}

# The largest size of NVIDIA's series that keeps E >= 0.7, its 95 % range, and where the curve crosses 0.7.
BREAK_EVEN = {
    "BERT": "64  64 64  75.8",
    "Llama 2 70B LoRA": "64  8 64  75.8",
    "RetinaNet": "64  8 64  73.5",
    "Stable Diffusion": "8  8 64  59.1",
}


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.strip().splitlines()]


@pytest.fixture(scope="module")
def facts() -> pd.DataFrame:
    return read_facts(FACTS)


def efficiency_of(facts: pd.DataFrame, benchmark: str, family: str) -> pd.DataFrame:
    return efficiency_table(mlperf_points(facts, "mlperf-v4.1", {benchmark: TITLES[benchmark]}, family))


@pytest.mark.parametrize("benchmark", TITLES)
def test_best_h100_submission_per_size(facts: pd.DataFrame, benchmark: str) -> None:
    title = TITLES[benchmark]
    table = efficiency_of(facts, benchmark, "H100-SXM")
    series = f"{title}, best H100-SXM submission per size"
    assert not table.loc[table["series"] == series, "headline"].any()
    shown = [
        [
            f"{row['devices']:.0f}",
            row["label"].split(":")[0],
            f"{row['global_batch']:.0f}",
            f"{row['time_s'] / 60:.3f}",
            f"{row['speedup']:.2f}",
            f"{row['efficiency']:.3f}",
            f"{row['device_hours']:.2f}",
            f"{row['rate_per_device']:.4g}",
            f"{row['samples']:.4g}",
            f"{row['efficiency_stat']:.3f}",
            f"{row['efficiency_sys']:.3f}",
        ]
        for _, row in table[table["series"] == series].sort_values("devices").iterrows()
    ]
    assert pd.DataFrame(shown, columns=COLUMNS).to_dict("records") == [
        dict(zip(COLUMNS, row, strict=True)) for row in cells(BEST_PER_SIZE[title])
    ]


@pytest.fixture(scope="module")
def headlines(facts: pd.DataFrame) -> pd.DataFrame:
    table = efficiency_table(mlperf_points(facts, "mlperf-v4.1", TITLES))
    return table[table["headline"]]


def of(table: pd.DataFrame, title: str) -> pd.DataFrame:
    return table[table["workload"] == title].sort_values("devices")


@pytest.mark.parametrize("title", WHERE_E_SYS_WENT)
def test_where_the_throughput_per_device_of_nvidias_series_went(headlines: pd.DataFrame, title: str) -> None:
    factors = ["efficiency_step", "efficiency_overhead", "efficiency_residual"]
    shown = [
        [f"{row['devices']:.0f}", *("-" if pd.isna(row[name]) else f"{row[name]:.3f}" for name in factors)]
        for _, row in of(headlines, title).iterrows()
    ]
    assert shown == cells(WHERE_E_SYS_WENT[title])


def test_the_steps_of_llama_on_1024_keep_0_90_and_evaluation_and_the_rest_0_76_against_the_best_on_4(
    facts: pd.DataFrame,
) -> None:
    table = efficiency_of(facts, "llama2_70b_lora", "H100-SXM")
    best = table[table["series"] == "Llama 2 70B LoRA, best H100-SXM submission per size"].set_index("devices")
    assert f"{best.loc[1024, 'efficiency_step']:.2f}" == "0.90"
    assert f"{best.loc[1024, 'efficiency_overhead'] * best.loc[1024, 'efficiency_residual']:.2f}" == "0.76"


@pytest.mark.parametrize("title", INTERVALS)
def test_how_sure_nvidias_largest_size_is(headlines: pd.DataFrame, title: str) -> None:
    row = of(headlines, title).iloc[-1]
    names = ["efficiency", "efficiency_stat", "efficiency_sys"]
    ends = [f"{row[f'{name}_{end}']:.3f}" for name in names for end in ("low", "high")]
    assert [f"{row['devices']:.0f}", *ends] == INTERVALS[title].split()


def test_a_set_whose_runs_all_take_four_epochs_is_known_to_about_eight_percent(headlines: pd.DataFrame) -> None:
    row = of(headlines, "RetinaNet").iloc[0]
    assert (row["devices"], row["global_batch"], row["samples"]) == (8, 256, 4 * 1_170_301)
    shown = [f"{row[name] / 60:.1f}" for name in ("time_s", "time_s_low", "time_s_high")]
    assert shown == ["35.7", "32.9", "38.4"]


def test_the_break_even_of_nvidias_series(facts: pd.DataFrame, headlines: pd.DataFrame) -> None:
    points = mlperf_points(facts, "mlperf-v4.1", TITLES)
    table = breakeven_table(points[points["headline"]], headlines, 0.7)
    shown = {
        row[
            "workload"
        ]: f"{row['devices']:.0f}  {row['devices_low']:.0f} {row['devices_high']:.0f}  {row['crossing']:.1f}"
        for _, row in table[table["primary"]].iterrows()
    }
    assert shown == BREAK_EVEN


def test_time_at_the_references_convergence(headlines: pd.DataFrame) -> None:
    shown = {
        title: [f"{t / 60:.3f}" for t in of(headlines, title)["time_reference_s"]] for title in ("BERT", "RetinaNet")
    }
    assert shown == {"BERT": ["5.242", "0.873", "0.107"], "RetinaNet": ["35.700", "5.996", "0.769"]}


def test_every_series_of_every_family_multiplies_out_and_is_the_scores_own_time(facts: pd.DataFrame) -> None:
    scored = submissions(facts)
    scored = scored.set_index([scored["benchmark"], scored["submitter"] + ": " + scored["system"]])
    counted = 0
    for (benchmark, family), of_both in facts.groupby(["benchmark", "accelerator_family"]):
        if not of_both["status"].eq("ok").any():
            continue
        points = mlperf_points(facts, "s", {str(benchmark): str(benchmark)}, str(family))
        assert points.groupby("workload")["headline"].any().all()
        table = efficiency_table(points)
        sys = table["efficiency_sys"].to_numpy(dtype=float)
        assert (table["efficiency_stat"] * sys).to_numpy(dtype=float) == pytest.approx(table["efficiency"], rel=1e-9)
        whole = table.dropna(subset=["efficiency_residual"])
        factors = whole[["efficiency_step", "efficiency_overhead", "efficiency_residual"]].astype(float).prod(axis=1)
        assert factors.tolist() == pytest.approx(whole["efficiency_sys"].tolist(), rel=1e-9)
        assert ((table["decomposition_note"] == "") == table["efficiency_residual"].notna()).all()
        score = scored.loc[[(benchmark, label) for label in table["label"]]]
        for mine, theirs, unit in (
            ("time_s", "time_to_train_min", 60),
            ("samples", "samples_to_converge", 1),
            ("time_reference_s", "time_reference_min", 60),
            ("device_hours", "device_hours", 1),
        ):
            expected = (score[theirs] * unit).tolist()
            assert table[mine].astype(float).tolist() == pytest.approx(expected, rel=1e-7, nan_ok=True)
        counted += len(table)
    assert counted > 100


@pytest.mark.parametrize(("title", "submitter", "family"), ONE_SUBMITTER)
def test_one_submitters_own_series(facts: pd.DataFrame, title: str, submitter: str, family: str) -> None:
    benchmark = next(name for name, shown in TITLES.items() if shown == title)
    table = efficiency_of(facts, benchmark, family)
    shown = [
        [
            f"{row['devices']:.0f}",
            f"{row['time_s'] / 60:.3f}",
            f"{row['efficiency']:.3f}",
            f"{row['efficiency_stat']:.3f}",
            f"{row['efficiency_sys']:.3f}",
        ]
        for _, row in table[table["series"] == f"{title}, {submitter} {family}"].sort_values("devices").iterrows()
    ]
    assert shown == cells(ONE_SUBMITTER[title, submitter, family])


def test_the_h100_series_are_these_and_no_others(facts: pd.DataFrame) -> None:
    points = mlperf_points(facts, "mlperf-v4.1", TITLES)
    headline = {f"{title}, NVIDIA H100-SXM" for title in TITLES.values()}
    best = {f"{title}, best H100-SXM submission per size" for title in TITLES.values()}
    own = {f"{title}, {who} {family}" for title, who, family in ONE_SUBMITTER if family == "H100-SXM"}
    assert set(points.loc[points["headline"], "series"]) == headline
    assert set(points.loc[~points["headline"], "series"]) == best | own - headline


def test_points_are_one_row_per_run_of_the_submissions_on_a_curve(facts: pd.DataFrame) -> None:
    points = mlperf_points(facts, "s", {"ssd": "RetinaNet", "bert": "BERT"})
    best = points[points["series"] == "RetinaNet, best H100-SXM submission per size"]
    assert best["devices"].value_counts().to_dict() == {4: 5, 8: 5, 32: 5, 64: 5, 2528: 5}
    assert set(best["label"]) >= {"NVIDIA: eos_n316_ngc24.04_pytorch", "Dell: 4xXE9680x8H100-SXM-80GB"}
    kept = best[["scaling", "aggregate", "unit", "device"]].drop_duplicates().to_numpy().tolist()
    assert kept == [["free", "olympic", "samples", "H100-SXM"]]
    failed = points[points["status"] == "failed"]
    assert set(failed["source"]) == {"NVIDIA/results/eos_n8_ngc23.04_pytorch/bert/result_4.txt"}


def test_runs_submitted_twice_are_on_no_curve(facts: pd.DataFrame) -> None:
    points = mlperf_points(facts, "s", {"llama2_70b_lora": "Llama 2 70B LoRA"})
    assert not points["label"].str.contains("POWER").any()
