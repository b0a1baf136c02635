# Figures of a workload: which there are and what each is drawn from, the package decides.
rule draw:
    input:
        unpack(DRAWING.inputs),
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
        arguments=DRAWING.arguments,
        caption=lambda w: KINDS[w.figure].caption,
    shell:
        "python -m breakeven.figures --kind {wildcards.figure} {params.arguments:q} --output {output:q} 2>&1 | tee {log:q} >&2"
