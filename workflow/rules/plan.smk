# A study as expanded from its config: what every later stage reads instead of the config.
rule expand_study:
    input:
        template="workflow/templates/plan.json.j2",
    output:
        "results/studies/{study}/plan.json",
    params:
        document=lambda w: DRAWING.document(PLAN.studies[w.study]),
    template_engine:
        "jinja2"
