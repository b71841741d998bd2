"""Published strategies to compare with: each is a function of a workload and a noise law, from its own paper."""
