/* Linking: several texts of PTX become one. What comes out is text again: a module may begin several times. */
#include <stdlib.h>
#include <string.h>

#include "image.h"
#include "message.h"
#include "module.h"

#define MOST_PARTS 64

struct link {
    struct handle handle;
    char *text;
    size_t bytes;
    unsigned int part_count;
    struct load_options options;
};

EXPORT CUresult cuLinkCreate_v2(unsigned int count, unsigned int *options, void **values, CUlinkState *made) {
    CURRENT(context);
    (void)context;
    if (made == NULL) return CUDA_ERROR_INVALID_VALUE;
    struct link *link = handle_new(HANDLE_LINK, sizeof *link);
    if (link == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    link->text = calloc(1, 1);
    link->bytes = 0;
    link->part_count = 0;
    link->options = (struct load_options){count, options, values};
    *made = link;
    return link->text == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult append(struct link *link, const char *text, size_t bytes) {
    char *more = realloc(link->text, link->bytes + bytes + 2);
    if (more == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    link->text = more;
    memcpy(more + link->bytes, text, bytes);
    link->bytes += bytes;
    more[link->bytes++] = '\n';
    more[link->bytes] = '\0';
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkAddData_v2(CUlinkState link, unsigned int type, void *data, size_t bytes, const char *name,
                                 unsigned int count, unsigned int *options, void **values) {
    (void)count, (void)options, (void)values;
    struct image image;
    if (!handle_is(link, HANDLE_LINK)) return CUDA_ERROR_INVALID_HANDLE;
    if (data == NULL || link->part_count == MOST_PARTS) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_JIT_INPUT_LIBRARY || !image_read(data, bytes, &image)) return CUDA_ERROR_INVALID_IMAGE;
    if (image.ptx == NULL) {
        complain_once("%s has machine code and no PTX, and cannot be linked",
                      name == NULL ? "an input of the linker" : name);
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    link->part_count++;
    return append(link, image.ptx, image.ptx_bytes);
}

EXPORT CUresult cuLinkAddFile_v2(CUlinkState link, unsigned int type, const char *path, unsigned int count,
                                 unsigned int *options, void **values) {
    size_t bytes;
    if (path == NULL) return CUDA_ERROR_INVALID_VALUE;
    char *data = file_content(path, &bytes);
    if (data == NULL) return CUDA_ERROR_FILE_NOT_FOUND;
    CUresult result = cuLinkAddData_v2(link, type, data, bytes, path, count, options, values);
    free(data);
    return result;
}

/* Reads the whole once, to say now what is wrong with it. */
EXPORT CUresult cuLinkComplete(CUlinkState link, void **image, size_t *bytes) {
    struct module *module;
    if (!handle_is(link, HANDLE_LINK)) return CUDA_ERROR_INVALID_HANDLE;
    if (image == NULL || bytes == NULL || link->part_count == 0) return CUDA_ERROR_INVALID_VALUE;
    const char *text = link->text;
    CUresult result = module_load_texts(NULL, &text, &link->bytes, 1, &link->options, &module);
    if (result != CUDA_SUCCESS) return result;
    module_unload(module);
    *image = link->text;
    *bytes = link->bytes + 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkDestroy(CUlinkState link) {
    if (!handle_is(link, HANDLE_LINK)) return CUDA_ERROR_INVALID_HANDLE;
    free(link->text);
    handle_drop(link);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLinkCreate(unsigned int count, unsigned int *options, void **values, CUlinkState *link) {
    return cuLinkCreate_v2(count, options, values, link);
}
EXPORT CUresult cuLinkAddData(CUlinkState link, unsigned int type, void *data, size_t bytes, const char *name,
                              unsigned int count, unsigned int *options, void **values) {
    return cuLinkAddData_v2(link, type, data, bytes, name, count, options, values);
}
EXPORT CUresult cuLinkAddFile(CUlinkState link, unsigned int type, const char *path, unsigned int count,
                              unsigned int *options, void **values) {
    return cuLinkAddFile_v2(link, type, path, count, options, values);
}
