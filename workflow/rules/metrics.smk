# Records to numbers, and numbers to points.
rule metrics:
    input:
        plan="results/studies/{study}/plan.json",
        records=lambda w: PLAN.studies[w.study].records(),
        steps=lambda w: PLAN.studies[w.study].steps(),
        code=sources("records", "metrics", "stats"),
    output:
        table="results/studies/{study}/tables/runs.csv",
        equivalence="results/studies/{study}/tables/equivalence.csv",
    log:
        "results/logs/{study}/metrics.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        runs=RUNS,
    shell:
        "python -m breakeven.metrics --plan {input.plan:q} --runs {params.runs:q} --table {output.table:q}"
        " --equivalence {output.equivalence:q} 2>&1 | tee {log:q} >&2"


rule measured_points:
    input:
        plan="results/studies/{study}/plan.json",
        runs="results/studies/{study}/tables/runs.csv",
        code=sources("points"),
    output:
        "results/studies/{study}/tables/points.csv",
    log:
        "results/logs/{study}/measured_points.log",
    wildcard_constraints:
        study=PLAN.pattern("measured"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        "python -m breakeven.points.records --plan {input.plan:q} --runs {input.runs:q} --output {output:q} 2>&1 | tee {log:q} >&2"
