"""Energy from power logs: by hand, and against the official tool on logs of every oddity."""

import random
from pathlib import Path

import pytest

from breakeven.mlperf.power import NodePower, PowerProblem, SwitchPower, node_power, switch_power
from tests.mlperf_repository import T0, mllog


def node(readings: list[tuple[int, float]], efficiency: float = 0.96) -> list[str]:
    """A node's log: (ms after the start, watts)."""
    return [
        mllog("conversion_eff", T0 - 5, efficiency),
        mllog("power_measurement_start", T0),
        *(mllog("power_reading", T0 + ms, watts) for ms, watts in readings),
        mllog("power_measurement_stop", T0 + readings[-1][0]),
    ]


def test_a_node_of_7_kw_for_ten_minutes() -> None:
    power = node_power(node([(1000, 7000.0), (2000, 7000.0), (4000, 7000.0)]))
    assert power == NodePower(conversion_eff=0.96, watt_ms=28_000_000.0, span_ms=4000.0)
    assert power.energy_j(600_000) == pytest.approx(0.96 * 7000 * 600)


def test_readings_count_for_the_time_since_the_one_before_them() -> None:
    # 1 s at 1000 W, 3 s at 2000 W: 1750 W.
    assert node_power(node([(1000, 1000), (4000, 2000)], 1.0)).energy_j(8000) == pytest.approx(1750 * 8)


def test_readings_before_the_start_and_after_the_stop_do_not_count() -> None:
    log = node([(1000, 1000), (2000, 1000)], 1.0)
    more = [mllog("power_reading", T0 - 500, 9e9), mllog("power_reading", T0 + 5000, 9e9)]
    assert node_power([*log, *more]) == node_power(log)


def test_without_a_stop_the_last_reading_is_it() -> None:
    log = node([(1000, 1000), (2000, 1000)], 1.0)
    assert node_power(log[:-1]) == node_power(log)


def test_a_switch_logs_one_estimate() -> None:
    log = [mllog("conversion_eff", T0, 0.9), mllog("interconnect_power_est", T0, 500)]
    assert switch_power(log) == SwitchPower(0.9, 500)
    assert switch_power(log).energy_j(600_000) == pytest.approx(0.9 * 500 * 600)
    assert switch_power([mllog("power_reading", T0, 500)]).energy_j(600_000) == 0


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([], "power_measurement_start is missing"),
        ([mllog("power_reading", T0, 7000)], "power_measurement_start is missing"),
        ([mllog("power_measurement_start", T0)], "no time between"),
        ([mllog("power_measurement_start", T0), mllog("power_measurement_stop", T0)], "no time between"),
        ([mllog("power_measurement_start", T0), mllog("power_reading", T0 + 1, "7 kW")], "power_reading is '7 kW'"),
        (
            [mllog("power_measurement_start", T0), mllog("power_reading", T0 + 1, float("nan"))],
            "power_reading is 'nan'",
        ),
        ([mllog("power_measurement_start", T0), mllog("power_reading", T0 + 1, 10**400)], "power_reading is '1000"),
        ([mllog("power_measurement_start", T0), mllog("power_reading", T0 + 1, -1e12)], "not a number of a sane size"),
        ([mllog("power_measurement_start", 0), mllog("power_reading", 1e300, 1e11)], "too large"),
    ],
)
def test_a_log_that_gives_no_energy_says_why(log: list[str], message: str) -> None:
    with pytest.raises(PowerProblem, match=message):
        node_power(log)


def test_damaged_lines_are_passed_over() -> None:
    log = node([(1000, 1000), (2000, 1000)])
    damaged = [
        ":::MLLOG {",
        ":::MLLOG []",
        ":::MLLOG " + "[" * 50_000,
        "no mark",
        ':::MLLOG {"key": [], "time_ms": "x"}',
    ]
    assert node_power([*damaged, *log]) == node_power(log)


def test_the_official_tool_gives_the_same_joules(tmp_path: Path) -> None:
    tool = pytest.importorskip("mlperf_logging.result_summarizer.result_summarizer")
    chance = random.Random(3)
    for example in range(40):
        log = [
            mllog(
                chance.choice(["power_reading"] * 12 + ["power_measurement_stop", "conversion_eff", "other"]),
                T0 + chance.randrange(1, 100_000),
                chance.choice([chance.uniform(0.5, 9000), chance.randrange(1, 9000)]),
            )
            for _ in range(chance.randrange(1, 60))
        ]
        log.insert(chance.randrange(len(log)), mllog("power_measurement_start", T0))
        time_ms = chance.uniform(1, 1e7)
        file = tmp_path / f"{example}.txt"
        file.write_text("".join("0: noise " + line for line in log))
        try:
            power = node_power(log)
        except PowerProblem:
            continue
        lines, _ = tool.parse_file(str(file), "4.1.0")
        assert power.energy_j(time_ms) == tool._compute_power_node(lines, time_ms)
        estimate = [*log[:5], mllog("interconnect_power_est", T0, 500), *log[5:]]
        file.write_text("".join(estimate))
        lines, _ = tool.parse_file(str(file), "4.1.0")
        assert switch_power(estimate).energy_j(time_ms) == tool._compute_power_sw(lines, time_ms)
