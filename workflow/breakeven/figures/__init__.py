"""Figures of a workload, as SVG: of a study's series (time, efficiency), and of published results (``kinds``)."""
