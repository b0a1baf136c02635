"""The version of everything that can change a measured number: part of a run's identity."""

#: Raised by hand when a change in the measured rooms (datasets, workloads, strategies, measure) can change a measured
#: number; then every run is measured anew. tests/unit/test_measure_version.py holds the sources to it.
MEASURE_VERSION = 2
