/* The GPU kinds by their names, and the machine that GPUYARD_GPUS describes. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"
#include "settings.h"

#include "gpu_kinds.h"

#define NAME_BYTES 64

/* Leaves out what people spell differently: case and separators. */
static void fold(const char *text, size_t length, char folded[NAME_BYTES]) {
    size_t used = 0;
    for (size_t i = 0; i < length && used < NAME_BYTES - 1; i++)
        if (!isspace((unsigned char)text[i]) && strchr("_.-", text[i]) == NULL)
            folded[used++] = (char)tolower((unsigned char)text[i]);
    folded[used] = '\0';
}

static const struct gpu_kind *find_kind(const char *text, size_t length) {
    char wanted[NAME_BYTES];
    fold(text, length, wanted);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(NAMES[i].name, wanted) == 0) return &KINDS[NAMES[i].kind];
    return NULL;
}

/* Reads "4x" or "4 ×" at the start of a group, 1 if there is none; returns what follows. */
static const char *read_count(const char *text, unsigned long *count) {
    char *end;
    *count = 1;
    if (!isdigit((unsigned char)*text)) return text;
    unsigned long number = strtoul(text, &end, 10);
    while (*end == ' ') end++;
    size_t sign = *end == 'x' || *end == 'X' ? 1 : strncmp(end, "×", strlen("×")) == 0 ? strlen("×") : 0;
    if (sign == 0) return text;
    *count = number;
    for (end += sign; *end == ' ';) end++;
    return end;
}

bool read_gpus(const char *text, struct settings *settings) {
    settings->gpu_count = 0;
    for (const char *group = text; group != NULL;) {
        unsigned long count;
        while (*group == ' ') group++;
        const char *name = read_count(group, &count);
        size_t length = strcspn(name, "+,");
        const struct gpu_kind *kind = find_kind(name, length);
        if (kind == NULL) {
            complain("GPUYARD_GPUS=%s: '%.*s' is not a bundled GPU kind; `gpuyard gpus` lists them", text, (int)length,
                     name);
            return false;
        }
        if (count == 0 || count > MOST_GPUS - settings->gpu_count) {
            complain("GPUYARD_GPUS=%s: a machine has 1 to %d GPUs", text, MOST_GPUS);
            return false;
        }
        while (count-- > 0) settings->gpus[settings->gpu_count++] = kind;
        group = name[length] == '\0' ? NULL : name + length + 1;
    }
    return true;
}

double copy_seconds(const struct gpu_kind *kind, uint64_t bytes, bool pinned) {
    if (pinned || bytes <= SMALL_COPY) return kind->small_copy_latency_s + (double)bytes / kind->pinned_copy;
    return kind->copy_latency_s + (double)bytes / kind->pageable_copy;
}
