"""What the source of a study obliges every page and text about it to say."""

from breakeven.report.meta import StudyMeta

MLPERF = (
    "Results from MLCommons: MLPerf Training, closed division, {round}retrieved from {url}. "
    "MLPerf is a registered trademark of the MLCommons Association. Speed-up, efficiency, device-hours and break-even "
    "are derived metrics, unverified: not verified by the MLCommons Association."
)
LOGS = "https://github.com/mlcommons/training_results_{round}"
SITE = "https://mlcommons.org/benchmarks/training/"


def notice(meta: StudyMeta) -> str:
    if meta.source != "mlperf":
        return ""
    round_name = str(meta.platform.get("round", ""))
    url = LOGS.format(round=round_name) if round_name else SITE
    return MLPERF.format(round=f"round {round_name}, " if round_name else "", url=url)
