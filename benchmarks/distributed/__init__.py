"""Training by several ranks: hybridc beside torch's DistributedDataParallel and MPI called by hand."""
