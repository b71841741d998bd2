"""Eigen-design: given queries, often the eigenvectors of the workload, each measured with its best weight."""
