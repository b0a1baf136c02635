# Two figures per workload: time and speed-up; efficiency with the break-even marked.
rule draw:
    input:
        points="results/studies/{study}/tables/points.csv",
        efficiency="results/studies/{study}/tables/efficiency.csv",
        breakeven="results/studies/{study}/tables/breakeven.csv",
        code=sources("figures"),
    output:
        report(
            "results/studies/{study}/figures/{workload}/{figure}.svg",
            caption="../report/figure.rst",
            category="{study}",
            labels={"what": "{figure}", "workload": "{workload}"},
        ),
    log:
        "results/logs/{study}/draw/{workload}-{figure}.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        title=lambda w: PLAN.studies[w.study].workloads[w.workload],
        source=lambda w: PLAN.studies[w.study].source,
    shell:
        "python -m breakeven.figures --kind {wildcards.figure} --workload {params.title:q} --points {input.points:q}"
        " --efficiency {input.efficiency:q} --breakeven {input.breakeven:q} --source {params.source} --output {output:q} 2>&1 | tee {log:q} >&2"
