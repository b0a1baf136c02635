# Points to the curve: efficiency, speed-up, device-hours, break-even.
rule scaling:
    input:
        points="results/studies/{study}/tables/points.csv",
        code=sources("scaling", "stats"),
    output:
        efficiency=report(
            "results/studies/{study}/tables/efficiency.csv",
            caption="../report/efficiency-table.rst",
            category="{study}",
            labels={"what": "efficiency table"},
        ),
        breakeven="results/studies/{study}/tables/breakeven.csv",
    log:
        "results/logs/{study}/scaling.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        threshold=PLAN.config.criterion.efficiency,
    shell:
        "python -m breakeven.scaling --points {input.points:q} --threshold {params.threshold}"
        " --efficiency {output.efficiency:q} --breakeven {output.breakeven:q} 2>&1 | tee {log:q} >&2"


# Runs that differ in one setting alone, held against each other.
rule comparison:
    input:
        plan="results/studies/{study}/plan.json",
        runs="results/studies/{study}/tables/runs.csv",
        code=sources("metrics", "points", "scaling", "stats"),
    output:
        "results/studies/{study}/tables/comparison.csv",
    log:
        "results/logs/{study}/comparison.log",
    wildcard_constraints:
        study=PLAN.pattern("measured"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        "python -m breakeven.scaling.comparison --plan {input.plan:q} --runs {input.runs:q} --output {output:q} 2>&1 | tee {log:q} >&2"
