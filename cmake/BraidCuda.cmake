# Filled by the set-up work: finds nvcc and NCCL when present.
