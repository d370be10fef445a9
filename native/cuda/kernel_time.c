#include "kernel_time.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "message.h"

#define BYTES_PER_THREAD 12

struct kernel_time {
    const char *pattern;
    double seconds;
};

static struct kernel_time *times;
static unsigned int count;

/* Returns what a file holds, or NULL; to be freed. */
static char *file_text(const char *path) {
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (file == NULL) return NULL;
    ssize_t length = getdelim(&text, &size, '\0', file);
    fclose(file);
    if (length >= 0) return text;
    free(text);
    return strdup("");
}

/* Reads one "pattern=microseconds" in place. */
static bool read_time(char *entry) {
    char *sign = strrchr(entry, '='), *end;
    if (sign == NULL) return false;
    double microseconds = strtod(sign + 1, &end);
    end += strspn(end, " \t\r");
    if (end == sign + 1 || *end != '\0' || !(microseconds >= 0) || isinf(microseconds)) return false;
    while (sign > entry && (sign[-1] == ' ' || sign[-1] == '\t')) sign--;
    *sign = '\0';
    struct kernel_time *more = realloc(times, (count + 1) * sizeof *times);
    if (more == NULL || sign == entry) return false;
    times = more;
    times[count++] = (struct kernel_time){entry, microseconds * 1e-6};
    return true;
}

bool read_kernel_times(void) {
    const char *value = getenv("GPUYARD_KERNEL_TIMES");
    if (value == NULL || *value == '\0') return true;
    char *text = strchr(value, '=') != NULL ? strdup(value) : file_text(value);
    if (text == NULL) {
        complain("GPUYARD_KERNEL_TIMES=%s cannot be read; it is a file, or a list as axpy=12.5,matmul*=300", value);
        return false;
    }
    unsigned int row = 1;
    for (char *line = text; line != NULL; row++) { /* patterns point into the text, so it stays */
        char *next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        line[strcspn(line, "#")] = '\0';
        char *rest = line;
        for (char *entry; (entry = strsep(&rest, ",")) != NULL;) {
            entry += strspn(entry, " \t\r");
            if (*entry == '\0' || read_time(entry)) continue;
            complain("GPUYARD_KERNEL_TIMES: line %u: '%s' is not pattern=microseconds", row, entry);
            return false;
        }
        line = next;
    }
    return true;
}

double kernel_seconds_by_name(const char *name) {
    for (unsigned int i = 0; i < count; i++)
        if (fnmatch(times[i].pattern, name, 0) == 0) return times[i].seconds;
    return NAN;
}

double kernel_seconds_by_size(const struct gpu_kind *kind, uint64_t threads, double seen) {
    return kind->kernel_floor_s + fmax((double)threads * BYTES_PER_THREAD / kind->bandwidth, seen);
}
