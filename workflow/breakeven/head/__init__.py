"""What the head process does: expand the config once, guard the run, say where things stand. Snakemake schedules."""
