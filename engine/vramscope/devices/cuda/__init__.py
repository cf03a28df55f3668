"""The CUDA device: CuPy (imported here alone) for memory, streams and graphs; own kernels through NVRTC."""
