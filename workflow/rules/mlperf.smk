# Published results to points: the facts of every run come with the project.
rule mlperf_points:
    input:
        plan="results/studies/{study}/plan.json",
        facts=lambda w: PLAN.studies[w.study].facts,
        code=sources("mlperf", "points"),
    output:
        "results/studies/{study}/tables/points.csv",
    log:
        "results/logs/{study}/mlperf_points.log",
    wildcard_constraints:
        study=PLAN.pattern("mlperf"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        "python -m breakeven.points.mlperf --plan {input.plan:q} --facts {input.facts:q} --output {output:q} 2>&1 | tee {log:q} >&2"
