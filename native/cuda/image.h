/* Images of modules: PTX as text, machine code as ELF, and containers of both. */
#ifndef GPUYARD_CUDA_IMAGE_H
#define GPUYARD_CUDA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

struct image {
    const char *ptx; /* NULL: there is none, or only a compressed one */
    size_t ptx_bytes;
    const unsigned char *machine_code;
    size_t machine_code_bytes; /* 0: as much as its own headers say */
    bool has_compressed_ptx;
};

/* Finds what is in an image; `bytes` is 0 where nobody knows, as in cuModuleLoadData. False: it is none. */
bool image_read(const void *data, size_t bytes, struct image *image);

/* Bytes of machine code, by its own headers. */
size_t image_bytes(const struct image *image);

/* Reads a whole file, with a zero byte behind it; NULL if that is impossible. To be freed. */
char *file_content(const char *path, size_t *bytes);

/* The name of the kernel number `index` in machine code, of `*length` bytes; NULL beyond the last. */
const char *image_kernel(const struct image *image, size_t index, size_t *length);

#endif
