"""Two figures per workload of a study, as SVG: time and speed-up, and efficiency with its break-even marked."""
