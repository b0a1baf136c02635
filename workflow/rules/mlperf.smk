# Published results. A round's runs come from one of three places (config `mlperf.source`), and everything after them is
# the same: the table that comes with the project ...
rule copy_facts:
    input:
        runs=lambda w: PLAN.rounds[w.round].path,
        anomalies=lambda w: PLAN.rounds[w.round].anomalies,
    output:
        runs="results/mlperf/{round}/runs.csv",
        anomalies="results/mlperf/{round}/anomalies.csv",
    log:
        "results/logs/mlperf/{round}/copy_facts.log",
    wildcard_constraints:
        round=PLAN.rounds_from("facts"),
    conda:
        "../../envs/analysis.yaml"
    shell:
        "(cp {input.runs:q} {output.runs:q} && cp {input.anomalies:q} {output.anomalies:q}) 2>&1 | tee {log:q} >&2"


# ... or a tree or archive of the user's, or a clone.
rule extract_results:
    input:
        source=lambda w: PLAN.rounds[w.round].path,
        rules=PLAN.rule_files(),
        code=sources("mlperf"),
    output:
        runs="results/mlperf/{round}/runs.csv",
        anomalies="results/mlperf/{round}/anomalies.csv",
    log:
        "results/logs/mlperf/{round}/extract_results.log",
    wildcard_constraints:
        round=PLAN.rounds_from("files", "repository"),
    conda:
        "../../envs/analysis.yaml"
    # Hundreds of logs, each read on its own: as many cores as there are.
    threads: 64
    params:
        arguments=PLAN.extract_arguments,
        # Not used by the command: files that change inside of a folder leave its own date as it was.
        state=lambda w: PLAN.rounds[w.round].state(),
    shell:
        "python -m breakeven.mlperf.extract --round {wildcards.round} {params.arguments:q} --processes {threads}"
        " --runs {output.runs:q} --anomalies {output.anomalies:q} -- {input.source:q} 2>&1 | tee {log:q} >&2"


rule clone_results:
    output:
        directory("results/mlperf/{round}/repository"),
    log:
        "results/logs/mlperf/{round}/clone_results.log",
    wildcard_constraints:
        round=PLAN.rounds_from("repository"),
    conda:
        "../../envs/analysis.yaml"
    params:
        repository=lambda w: PLAN.rounds[w.round].repository,
        commit=lambda w: PLAN.rounds[w.round].commit,
    shell:
        "python -m breakeven.mlperf.fetch --repository {params.repository:q} --commit {params.commit}"
        " --output {output:q} 2>&1 | tee {log:q} >&2"


# Runs to scores, and what MLPerf's reference runs needed at every batch.
rule score_results:
    input:
        runs="results/mlperf/{round}/runs.csv",
        rules=PLAN.rule_files(),
        code=sources("mlperf", "stats"),
    output:
        scores="results/mlperf/{round}/scores.csv",
        critical_batch="results/mlperf/{round}/critical_batch.csv",
        reference="results/mlperf/{round}/reference.csv",
    log:
        "results/logs/mlperf/{round}/score_results.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        rules=PLAN.rules_arguments(),
    shell:
        "python -m breakeven.mlperf.score --runs {input.runs:q} {params.rules:q} --scores {output.scores:q}"
        " --critical-batch {output.critical_batch:q} --reference {output.reference:q} 2>&1 | tee {log:q} >&2"


# Runs to points: the submissions that a scaling curve is drawn through.
rule mlperf_points:
    input:
        plan="results/studies/{study}/plan.json",
        runs=lambda w: PLAN.studies[w.study].round_table("runs"),
        rules=PLAN.rule_files(),
        code=sources("mlperf", "points", "stats"),
    output:
        "results/studies/{study}/tables/points.csv",
    log:
        "results/logs/{study}/mlperf_points.log",
    wildcard_constraints:
        study=PLAN.pattern("mlperf"),
    conda:
        "../../envs/analysis.yaml"
    params:
        rules=PLAN.rules_arguments(),
    shell:
        "python -m breakeven.points.mlperf --plan {input.plan:q} --facts {input.runs:q} {params.rules:q}"
        " --output {output:q} 2>&1 | tee {log:q} >&2"
