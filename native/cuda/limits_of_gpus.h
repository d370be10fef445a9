/* What all emulated GPUs allow, whatever their kind, as gpuyard/emulation/torch/cuda_api.py says it too. */
#ifndef GPUYARD_CUDA_LIMITS_OF_GPUS_H
#define GPUYARD_CUDA_LIMITS_OF_GPUS_H

#define WARP_SIZE 32
#define THREADS_PER_BLOCK 1024
#define THREADS_PER_BLOCK_Z 64
#define BLOCKS_PER_GRID_X 2147483647
#define BLOCKS_PER_GRID 65535 /* along the other sides */
#define THREADS_PER_MULTIPROCESSOR 2048
#define BLOCKS_PER_MULTIPROCESSOR 32
#define SHARED_PER_BLOCK (48 * 1024)
#define SHARED_PER_MULTIPROCESSOR (96 * 1024) /* and per block, for kernels that ask for it */

#endif
