# One job per run. The record and its arrays are its only outputs; exit codes and locks are in docs/measuring.md.
#
# `exec` makes the launcher a child of Snakemake itself, whose death it watches. The data are `ancient` because their
# content is in the run's identity: preparing them again must not measure again.
rule measure_run:
    input:
        unpack(PLAN.run_inputs),
    output:
        record="results/runs/{run_id}/r{repeat}/record.json",
        steps="results/runs/{run_id}/r{repeat}/steps.npz",
    log:
        "results/runs/{run_id}/r{repeat}/run.log",
    priority: lambda w: PLAN.priority(w.run_id, int(w.repeat))
    conda:
        "../../envs/measure.yaml"
    # Asked of a batch system; the launcher takes neither count from here, since Snakemake caps both in silence.
    threads: lambda w: PLAN.spec(w.run_id).devices
    resources:
        machine=100,
        # Limits are resources, not parameters: raising one must not measure again. The launcher ends a run itself,
        # two minutes before a batch system would kill it and lose what it left.
        timeout_s=lambda w: 60 * PLAN.timeout_min(w.run_id),
        runtime=lambda w: PLAN.timeout_min(w.run_id) + 2,
        gpu=lambda w: PLAN.gpus(w.run_id),
        # Nor does it matter to a run's identity what starts the ranks; its record says it.
        launcher=lambda w: PLAN.launcher(w.run_id),
    params:
        spec=lambda w: PLAN.spec_json(w.run_id),
        model=lambda w: PLAN.model_arguments(w.run_id),
    shell:
        "exec python -m breakeven.measure --spec {params.spec:q} --repeat {wildcards.repeat}"
        " --data {input.data:q} --record {output.record:q} --steps {output.steps:q} --log {log:q}"
        " --timeout-s {resources.timeout_s} --launcher {resources.launcher} {params.model:q}"
        " --progress results/.progress.json"
