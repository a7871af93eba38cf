"""A model made ready for fast decoding: fused and 8-bit linear layers, static caches, CUDA graphs, own kernels."""
