# The page whose first lines are the answer.
rule write_report:
    input:
        plans=expand("results/studies/{study}/plan.json", study=PLAN.studies),
        studies=TARGETS.report_inputs(),
        code=sources("report", "figures"),
    output:
        page=report(
            "results/report.html", caption="../report/report.rst", category="Report"
        ),
        answer="results/answer.txt",
    log:
        "results/logs/write_report.log",
    conda:
        "../../envs/analysis.yaml"
    shell:
        "python -m breakeven.report --plan {input.plans:q} --page {output.page:q} --answer {output.answer:q}"
        " 2>&1 | tee {log:q} >&2"
