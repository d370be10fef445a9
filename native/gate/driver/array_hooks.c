/* Memory that has no address of its own: arrays, and physical memory that is mapped later. */
#include "allocating.h"

struct array_descriptor {
    size_t width, height;
    unsigned int format, channels;
};

struct array_descriptor_3d {
    size_t width, height, depth;
    unsigned int format, channels, flags;
};

/* What cuMemCreate is asked for, as far as it says where. */
struct memory_properties {
    unsigned int type, handle_types;
    CUmemLocation location;
};

/* Bytes of one channel. Formats of blocks and planes are taken for 4: at least as much as they need. */
static uint64_t format_bytes(unsigned int format) {
    switch (format) {
        case 0x01: case 0x08: return 1;            /* 8-bit integers */
        case 0x02: case 0x09: case 0x10: return 2; /* 16-bit integers and half precision */
        default: return 4;
    }
}

static uint64_t at_least_one(uint64_t number) { return number == 0 ? 1 : number; }

static uint64_t array_bytes(const struct array_descriptor *array) {
    if (array == NULL) return 0;
    return (uint64_t)array->width * at_least_one(array->height) * at_least_one(array->channels) * format_bytes(array->format);
}

static uint64_t array_bytes_3d(const struct array_descriptor_3d *array) {
    if (array == NULL) return 0;
    return (uint64_t)array->width * at_least_one(array->height) * at_least_one(array->depth) *
           at_least_one(array->channels) * format_bytes(array->format);
}

/* Each level of a pyramid is half as wide, high and deep. */
static uint64_t pyramid_bytes(const struct array_descriptor_3d *array, unsigned int levels) {
    uint64_t bytes = 0;
    if (array == NULL) return 0;
    struct array_descriptor_3d level = *array;
    for (unsigned int i = 0; i < levels && i < 32; i++) {
        bytes += array_bytes_3d(&level);
        level.width = at_least_one(level.width / 2);
        level.height /= 2;
        level.depth /= 2;
    }
    return bytes;
}

ALLOCATING(cuArrayCreate_v2, HANDLE_OF_ARRAY, array, array_bytes(about), (array, about), CUarray *array,
           const struct array_descriptor *about)
ALLOCATING(cuArray3DCreate_v2, HANDLE_OF_ARRAY, array, array_bytes_3d(about), (array, about), CUarray *array,
           const struct array_descriptor_3d *about)
ALLOCATING(cuMipmappedArrayCreate, HANDLE_OF_ARRAY, array, pyramid_bytes(about, levels), (array, about, levels),
           void **array, const struct array_descriptor_3d *about, unsigned int levels)
FREEING(cuArrayDestroy, HANDLE_OF_ARRAY, array, (array), CUarray array)
FREEING(cuMipmappedArrayDestroy, HANDLE_OF_ARRAY, array, (array), void *array)

/* Physical memory says itself on which GPU it is, and belongs to no context. */
EXPORT CUresult cuMemCreate(uint64_t *handle, size_t bytes, const struct memory_properties *about, uint64_t flags) {
    bool on_gpu = is_gated() && about != NULL && about->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    struct allocating allocating = {.bytes = bytes, .gpu = on_gpu ? gpu_of_device(about->location.id) : NULL};
    if (allocating.gpu != NULL && gpuyard_gate_reserve(allocating.gpu->client, bytes) != GPUYARD_OK)
        return CUDA_ERROR_OUT_OF_MEMORY;
    inside++;
    CUresult result = REAL(cuMemCreate)(handle, bytes, about, flags);
    inside--;
    allocation_ends(&allocating, result, HANDLE_OF_MEMORY, result == CUDA_SUCCESS ? *handle : 0);
    return result;
}

EXPORT CUresult cuMemRetainAllocationHandle(uint64_t *handle, void *address) {
    CUresult result = REAL(cuMemRetainAllocationHandle)(handle, address);
    if (result == CUDA_SUCCESS && is_gated()) allocation_share(HANDLE_OF_MEMORY, *handle);
    return result;
}

FREEING(cuMemRelease, HANDLE_OF_MEMORY, handle, (handle), uint64_t handle)
