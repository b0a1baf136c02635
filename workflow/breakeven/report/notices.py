"""What the source of a study obliges every page and text about it to say."""

from breakeven.report.meta import StudyMeta

MLPERF = (
    "Results from MLCommons Association: MLPerf Training, closed division, {round}retrieved from {origin}, each by the "
    "submitter named with it. The MLPerf name and logo are registered and unregistered trademarks of MLCommons "
    "Association in the United States and other countries. All rights reserved. Unauthorized use strictly prohibited. "
    "See www.mlcommons.org for more information. Speed-up, efficiency and its parts, device-hours, cost, critical "
    "batch, time at reference convergence and break-even are derived metrics, unverified: not verified by MLCommons "
    "Association."
)
SITE = "https://mlcommons.org/benchmarks/training/"


def notice(meta: StudyMeta) -> str:
    if meta.source != "mlperf":
        return ""
    round_name = str(meta.platform.get("round", ""))
    return MLPERF.format(round=f"round {round_name}, " if round_name else "", origin=meta.origin or SITE)
