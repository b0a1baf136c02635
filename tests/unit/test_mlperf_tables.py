"""Scaling tables of MLPerf Training v4.1 on H100-SXM, worked out apart from this package, to every digit they show.

The whole way is under test: facts → scores → points → efficiency.
"""

from pathlib import Path

import pandas as pd
import pytest

from breakeven.mlperf.table import read_facts
from breakeven.points.mlperf import mlperf_points
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
