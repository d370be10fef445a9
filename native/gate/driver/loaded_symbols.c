/* dlsym cannot be asked for dlsym once we are dlsym. So the tables that it reads are read here: GNU hash tables, which every
 * object for Linux has had for long. */
#define _GNU_SOURCE
#include "loaded_symbols.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct symbol_table {
    const ElfW(Sym) *symbols;
    const char *names;
    const uint32_t *hashes;
};

struct search {
    const char *name;
    bool passed_us;
    void *after_us, *anywhere;
};

static uint32_t hash_of(const char *name) {
    uint32_t hash = 5381;
    for (; *name != '\0'; name++) hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* On most machines the loader has made these addresses absolute; on some it leaves them. */
static const void *absolute(const struct dl_phdr_info *object, ElfW(Addr) address) {
    return (const void *)(address < object->dlpi_addr ? object->dlpi_addr + address : address);
}

static bool read_tables(const struct dl_phdr_info *object, struct symbol_table *table) {
    *table = (struct symbol_table){0};
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn) *each = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
        for (; each->d_tag != DT_NULL; each++) {
            if (each->d_tag == DT_SYMTAB) table->symbols = absolute(object, each->d_un.d_ptr);
            if (each->d_tag == DT_STRTAB) table->names = absolute(object, each->d_un.d_ptr);
            if (each->d_tag == DT_GNU_HASH) table->hashes = absolute(object, each->d_un.d_ptr);
        }
    }
    return table->symbols != NULL && table->names != NULL && table->hashes != NULL;
}

/* A GNU hash table: counts, a filter that is skipped here, buckets, and for each symbol its hash; a set bit 0 ends a chain. */
static const ElfW(Sym) *find_symbol(const struct symbol_table *table, const char *name) {
    uint32_t bucket_count = table->hashes[0], first = table->hashes[1], filter_words = table->hashes[2];
    const uint32_t *buckets = table->hashes + 4 + filter_words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chains = buckets + bucket_count;
    uint32_t hash = hash_of(name), symbol = bucket_count == 0 ? 0 : buckets[hash % bucket_count];
    if (symbol < first) return NULL;
    for (;; symbol++) {
        const ElfW(Sym) *found = &table->symbols[symbol];
        if ((chains[symbol - first] | 1) == (hash | 1) && strcmp(table->names + found->st_name, name) == 0 &&
            found->st_shndx != SHN_UNDEF)
            return found;
        if (chains[symbol - first] & 1) return NULL;
    }
}

static bool is_ours(const struct dl_phdr_info *object) {
    ElfW(Addr) here = (ElfW(Addr))(uintptr_t)&next_loaded;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        ElfW(Addr) start = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && here >= start && here < start + part->p_memsz) return true;
    }
    return false;
}

/* The program itself has no name, and what the kernel maps into it is no file. */
static int visit(struct dl_phdr_info *object, size_t size, void *wanted) {
    (void)size;
    struct search *search = wanted;
    struct symbol_table table;
    if (is_ours(object)) {
        search->passed_us = true;
        return 0;
    }
    if (object->dlpi_name == NULL || strchr(object->dlpi_name, '/') == NULL || !read_tables(object, &table)) return 0;
    const ElfW(Sym) *found = find_symbol(&table, search->name);
    if (found == NULL) return 0;
    void **place = search->passed_us ? &search->after_us : &search->anywhere;
    if (*place == NULL) *place = (void *)(object->dlpi_addr + found->st_value);
    return search->after_us != NULL;
}

void *next_loaded(const char *name) {
    struct search search = {.name = name};
    dl_iterate_phdr(visit, &search);
    return search.after_us != NULL ? search.after_us : search.anywhere;
}
