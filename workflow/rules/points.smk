# A table of timings from elsewhere to points.
rule table_points:
    input:
        table=lambda w: PLAN.studies[w.study].table,
        plan="results/studies/{study}/plan.json",
        code=sources("points"),
    output:
        "results/studies/{study}/tables/points.csv",
    log:
        "results/logs/{study}/table_points.log",
    wildcard_constraints:
        study=PLAN.pattern("points"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        "python -m breakeven.points.elsewhere --plan {input.plan:q} --output {output:q} 2>&1 | tee {log:q} >&2"
