# Data prepared once; what it is, is in its name. Models and images of a hub are fetched at the commit the study pins.
rule fetch_model:
    output:
        directory("results/models/{model}"),
    log:
        "results/logs/fetch_model/{model}.log",
    conda:
        "../../envs/measure.yaml"
    params:
        arguments=lambda w: PLAN.hub_models()[w.model],
    shell:
        "python -m breakeven.datasets.fetch {params.arguments:q} --output {output:q} 2>&1 | tee {log:q} >&2"


rule fetch_images:
    output:
        directory("results/images/{images}"),
    log:
        "results/logs/fetch_images/{images}.log",
    conda:
        "../../envs/measure.yaml"
    params:
        data=lambda w: PLAN.hub_images()[w.images],
    shell:
        "python -m breakeven.datasets.fetch_images --data {params.data:q} --output {output:q} 2>&1 | tee {log:q} >&2"


# Nothing but a missing output may make this run: a run reads it as `ancient`, and Snakemake then leaves out runs that are
# still missing. So the user's file is no input (its content is in the data's name, the plan has checked that it is there),
# and what names it is a resource, which is not tracked.
rule prepare_data:
    input:
        unpack(PLAN.data_inputs),
    output:
        "results/data/{data_id}.npz",
    log:
        "results/logs/prepare_data/{data_id}.log",
    conda:
        "../../envs/measure.yaml"
    resources:
        arguments=lambda w: PLAN.data_arguments(w.data_id),
    shell:
        "python -m breakeven.datasets {resources.arguments} --output {output:q} 2>&1 | tee {log:q} >&2"
