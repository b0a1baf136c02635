# A check of the machine itself, in minutes: some of the equivalence table, a run out of memory, one that hangs, and how
# fast the devices exchange. All of it is made again where the devices, the driver, torch or the project has changed.
use rule measure_run as selftest_run with:
    output:
        record="results/selftest/runs/{run_id}/r{repeat}/record.json",
        steps="results/selftest/runs/{run_id}/r{repeat}/steps.npz",
    log:
        "results/selftest/runs/{run_id}/r{repeat}/run.log",
    params:
        spec=lambda w: PLAN.spec_json(w.run_id),
        model=lambda w: PLAN.model_arguments(w.run_id),
        of=lambda _: SUITES.selftest().identity(),


rule selftest_fault:
    input:
        data=ancient(lambda _: SUITES.selftest().data_path()),
    output:
        record="results/selftest/{fault}/{run_id}/r1/record.json",
        steps="results/selftest/{fault}/{run_id}/r1/steps.npz",
    log:
        "results/selftest/{fault}/{run_id}/r1/run.log",
    conda:
        "../../envs/measure.yaml"
    threads: lambda _: SUITES.selftest().spec().devices
    resources:
        machine=100,
        runtime=5,
        gpu=lambda _: SUITES.selftest().gpus(SUITES.selftest().spec().devices),
    params:
        spec=lambda _: SUITES.selftest().spec_json(),
        fault=lambda w: SUITES.selftest().fault(w.fault),
        memory_gib=OOM_MEMORY_GIB,
        of=lambda _: SUITES.selftest().identity(),
    shell:
        "BREAKEVEN_FAULT={params.fault:q} BREAKEVEN_MEMORY_GIB={params.memory_gib} exec python -m breakeven.measure"
        " --spec {params.spec:q} --repeat 1 --data {input.data:q} --record {output.record:q} --steps {output.steps:q}"
        " --log {log:q} --timeout-s 120 --launcher auto"


rule selftest_allreduce:
    output:
        "results/selftest/allreduce.json",
    log:
        "results/logs/selftest/allreduce.log",
    conda:
        "../../envs/measure.yaml"
    threads: lambda _: SUITES.selftest().devices
    resources:
        machine=100,
        runtime=5,
        gpu=lambda _: SUITES.selftest().gpus(SUITES.selftest().devices),
    params:
        kind=lambda _: SUITES.selftest().machine.device_kind,
        devices=lambda _: SUITES.selftest().devices,
        of=lambda _: SUITES.selftest().identity(),
    shell:
        "exec python -m breakeven.measure.allreduce --device-kind {params.kind} --devices {params.devices}"
        " --output {output:q} --log {log:q}"


rule selftest_text:
    input:
        unpack(lambda _: SUITES.selftest().files()),
        table="results/selftest/table.csv",
        code=sources("records", "metrics"),
    output:
        "results/selftest.txt",
    log:
        "results/logs/selftest/text.log",
    conda:
        "../../envs/analysis.yaml"
    params:
        about=lambda _: SUITES.selftest().document(),
        folders=lambda _: SUITES.selftest().folders(),
    shell:
        "python -m breakeven.metrics.selftest write --about {params.about:q} --table {input.table:q}"
        " {params.folders:q} --allreduce {input.allreduce:q} --output {output:q} 2>&1 | tee {log:q} >&2"
