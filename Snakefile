# Breakeven: a table of contents. Stages are in workflow/rules/, all logic in workflow/breakeven/.
from snakemake.utils import min_version

min_version("9.20")


include: "workflow/rules/guard.smk"


configfile: "config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/plan.smk"
include: "workflow/rules/mlperf.smk"
include: "workflow/rules/points.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/equivalence.smk"
include: "workflow/rules/selftest.smk"
include: "workflow/rules/metrics.smk"
include: "workflow/rules/scaling.smk"
include: "workflow/rules/figures.smk"
include: "workflow/rules/report.smk"


# On a cluster only measuring is a job: the rest takes seconds, and fetching needs the network that nodes often lack.
localrules:
    all,
    plan,
    data,
    mlperf,
    measure,
    figures,
    report,
    equivalence,
    selftest,
    help,
    expand_checks,
    check_table,
    selftest_text,
    expand_study,
    copy_facts,
    clone_results,
    extract_results,
    score_results,
    mlperf_points,
    table_points,
    fetch_model,
    fetch_images,
    prepare_data,
    metrics,
    measured_points,
    scaling,
    comparison,
    draw,
    write_report,


rule all:
    """Everything that config/config.yaml names: measured, analysed, drawn, told."""
    default_target: True
    input:
        lambda _: TARGETS.everything(),


rule plan:
    """What would be measured, how many runs, at most how many device-hours. Measures nothing."""
    input:
        lambda _: TARGETS.plans("measured"),
    params:
        runs=RUNS,
    shell:
        "python -m breakeven.head.forecast --runs {params.runs:q} {input:q}"


rule data:
    """Prepared data and fetched models: all that needs the network, to be run where there is one."""
    input:
        lambda _: TARGETS.data(),


rule mlperf:
    """Published results: tables of every round, and the tables and figures of the studies of them."""
    input:
        lambda _: TARGETS.published(),


rule measure:
    """The measured runs and their records, nothing else."""
    input:
        lambda _: TARGETS.records(),


rule figures:
    """The figures of every study."""
    input:
        lambda _: TARGETS.figures(),


rule report:
    """The report, whose first lines are the answer."""
    input:
        lambda _: TARGETS.report(),


rule equivalence:
    """Every strategy held against one device: same losses, the bytes of its formula, wrong runs caught."""
    input:
        TARGETS.equivalence(),
    shell:
        "python -m breakeven.metrics.equivalence judge {input:q}"


rule selftest:
    """In five minutes, on these devices: strategies, memory that runs out, a hang, an all-reduce. Ends in a block to paste."""
    input:
        TARGETS.selftest(),
    shell:
        "python -m breakeven.metrics.selftest show {input:q}"


rule help:
    """This table."""
    params:
        table=lambda _: help_table(workflow, TARGETS.results()),
    shell:
        "printf '%s\\n' {params.table:q}"


onstart:
    start(workflow)
