"""Records to numbers: step time, throughput, memory, and whether every strategy did the same work."""
