# Every strategy held against one device. The runs are ordinary ones that no study owns, planned from what the strategies
# say of themselves; the table is written whatever it says, and the target that asks for it judges it.
rule expand_checks:
    input:
        template="workflow/templates/plan.json.j2",
    output:
        "results/{suite}/plan.json",
    params:
        document=lambda w: SUITES.of(w.suite).document(),
    template_engine:
        "jinja2"


rule check_table:
    input:
        plan="results/{suite}/plan.json",
        records=lambda w: SUITES.of(w.suite).records(),
        steps=lambda w: SUITES.of(w.suite).steps(),
        code=sources("records", "metrics"),
    output:
        "results/{suite}/table.csv",
    log:
        "results/logs/{suite}/check_table.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        runs=lambda w: SUITES.of(w.suite).runs,
    shell:
        "python -m breakeven.metrics.equivalence table --plan {input.plan:q} --runs {params.runs:q}"
        " --output {output:q} 2>&1 | tee {log:q} >&2"
