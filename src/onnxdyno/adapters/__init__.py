"""One outside world each, independent of one another; foreign errors are translated here and nowhere else."""
