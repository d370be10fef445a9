#include "image.h"

#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243b1u /* what nvcc puts around a container in a program */
#define CONTAINER_MAGIC 0xba55ed50u
#define KIND_PTX 1
#define KIND_MACHINE_CODE 2
#define MOST_BYTES ((size_t)1 << 32)

struct wrapper {
    uint32_t magic, version;
    const void *data;
};

struct container {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes; /* of what follows the header */
};

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes, reserved;
    uint16_t minor, major;
    uint32_t architecture;
};

/* Takes the PTX for the newest architecture, and any machine code. */
static void read_entry(const struct entry *entry, const unsigned char *content, struct image *image, uint32_t *newest) {
    if (entry->kind == KIND_PTX && entry->compressed_bytes > 0) image->has_compressed_ptx = true;
    if (entry->kind == KIND_PTX && entry->compressed_bytes == 0 && entry->architecture >= *newest) {
        *newest = entry->architecture;
        image->ptx = (const char *)content;
        image->ptx_bytes = strnlen(image->ptx, entry->bytes);
    }
    if (entry->kind == KIND_MACHINE_CODE && entry->compressed_bytes == 0) {
        image->machine_code = content;
        image->machine_code_bytes = entry->bytes;
    }
}

static bool read_container(const unsigned char *data, size_t bytes, struct image *image) {
    struct container container;
    memcpy(&container, data, sizeof container);
    size_t left = bytes == 0 ? MOST_BYTES : bytes;
    if (container.header_bytes < sizeof container || container.bytes > left - container.header_bytes) return false;
    const unsigned char *at = data + container.header_bytes, *end = at + container.bytes;
    uint32_t newest = 0;
    while ((size_t)(end - at) >= sizeof(struct entry)) {
        struct entry entry;
        memcpy(&entry, at, sizeof entry);
        size_t room = (size_t)(end - at);
        if (entry.header_bytes < sizeof entry || entry.header_bytes > room || entry.bytes > room - entry.header_bytes)
            return false;
        read_entry(&entry, at + entry.header_bytes, image, &newest);
        at += entry.header_bytes + entry.bytes;
    }
    return true;
}

bool image_read(const void *data, size_t bytes, struct image *image) {
    *image = (struct image){0};
    uint32_t magic;
    if (data == NULL || (bytes > 0 && bytes < sizeof(struct container))) return false;
    memcpy(&magic, data, sizeof magic);
    if (magic == WRAPPER_MAGIC) {
        struct wrapper wrapper;
        memcpy(&wrapper, data, sizeof wrapper);
        return image_read(wrapper.data, 0, image);
    }
    if (magic == CONTAINER_MAGIC) return read_container(data, bytes, image);
    if (memcmp(data, ELFMAG, SELFMAG) == 0) {
        image->machine_code = data;
        image->machine_code_bytes = bytes;
        return true;
    }
    image->ptx = data;
    image->ptx_bytes = bytes == 0 ? strlen(image->ptx) : strnlen(image->ptx, bytes);
    for (size_t i = 0; i < image->ptx_bytes && i < 64; i++)
        if ((unsigned char)image->ptx[i] >= 127 || (image->ptx[i] < ' ' && strchr("\t\n\r\f\v", image->ptx[i]) == NULL))
            return false;
    return image->ptx_bytes > 0;
}

/* The table of sections is the last thing in the files that NVIDIA's tools write. */
size_t image_bytes(const struct image *image) {
    Elf64_Ehdr header;
    if (image->machine_code == NULL) return 0;
    memcpy(&header, image->machine_code, sizeof header);
    size_t sections = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    size_t programs = header.e_phoff + (size_t)header.e_phnum * header.e_phentsize;
    return sections > programs ? sections : programs;
}

char *file_content(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    size_t used = 0, room = 1 << 16;
    char *data = malloc(room);
    for (size_t got; data != NULL && (got = fread(data + used, 1, room - used - 1, file)) > 0;) {
        used += got;
        if (used < room - 1) continue;
        char *more = realloc(data, room *= 2);
        if (more == NULL) free(data);
        data = more;
    }
    fclose(file);
    if (data != NULL) data[used] = '\0';
    *bytes = used;
    return data;
}

/* Each kernel is a section of its own, .text.NAME. */
const char *image_kernel(const struct image *image, size_t index, size_t *length) {
    static const char prefix[] = ".text.";
    Elf64_Ehdr header;
    size_t room = image->machine_code_bytes == 0 ? MOST_BYTES : image->machine_code_bytes;
    if (image->machine_code == NULL || room < sizeof header) return NULL;
    memcpy(&header, image->machine_code, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > room ||
        (size_t)header.e_shnum * sizeof(Elf64_Shdr) > room - header.e_shoff || header.e_shstrndx >= header.e_shnum)
        return NULL;
    const unsigned char *sections = image->machine_code + header.e_shoff;
    Elf64_Shdr names;
    memcpy(&names, sections + header.e_shstrndx * sizeof names, sizeof names);
    if (names.sh_offset > room || names.sh_size > room - names.sh_offset) return NULL;
    for (size_t i = 0; i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, sections + i * sizeof section, sizeof section);
        if (section.sh_name >= names.sh_size) return NULL;
        const char *name = (const char *)image->machine_code + names.sh_offset + section.sh_name;
        size_t bytes = strnlen(name, names.sh_size - section.sh_name);
        if (bytes < sizeof prefix || strncmp(name, prefix, sizeof prefix - 1) != 0) continue;
        *length = bytes - (sizeof prefix - 1);
        if (index-- == 0) return name + sizeof prefix - 1;
    }
    return NULL;
}
