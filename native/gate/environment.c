/* Which group a program is in and on what terms: plain numbers in its environment. */
#include <errno.h>
#include <stdlib.h>

#include "gate.h"

static const char *text_of(const char *variable) {
    const char *text = getenv(variable);
    return text == NULL || *text == '\0' ? NULL : text;
}

static bool read_count(const char *variable, uint64_t *value) {
    const char *text = text_of(variable);
    if (text == NULL) return true;
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && *text != '-';
}

static bool read_level(const char *variable, int64_t *value) {
    const char *text = text_of(variable);
    if (text == NULL) return true;
    char *end;
    *value = strtoll(text, &end, 10);
    return *end == '\0' && *value >= GPUYARD_GATE_UNGATED && *value < GPUYARD_GATE_LEVELS;
}

static bool read_number(const char *variable, double *value, double above, double most) {
    const char *text = text_of(variable);
    if (text == NULL) return true;
    char *end;
    *value = strtod(text, &end);
    return *end == '\0' && *value > above && *value <= most;
}

static bool read_hold(const char *variable, uint64_t *nanoseconds) {
    double seconds = 0.0;
    if (!read_number(variable, &seconds, -1e-12, 1.0)) return false;
    *nanoseconds = (uint64_t)(seconds * 1e9 + 0.5);
    return true;
}

const char *gpuyard_gate_read_environment(const char **group, struct gpuyard_gate_request *request) {
    *request = (struct gpuyard_gate_request){.share = 1.0, .memory_limit = UINT64_MAX};
    *group = text_of("GPUYARD_GATE");
    if (!read_level("GPUYARD_GATE_LEVEL", &request->terms.level)) return "GPUYARD_GATE_LEVEL is no level from -1 to 63";
    if (!read_count("GPUYARD_GATE_SYNC_EVERY", &request->terms.sync_every))
        return "GPUYARD_GATE_SYNC_EVERY is no number of launches";
    if (!read_count("GPUYARD_GATE_WINDOW", &request->terms.window)) return "GPUYARD_GATE_WINDOW is no number of launches";
    if (!read_count("GPUYARD_GATE_MEMORY", &request->memory_limit)) return "GPUYARD_GATE_MEMORY is no number of bytes";
    if (!read_number("GPUYARD_GATE_SHARE", &request->share, 0.0, 1.0))
        return "GPUYARD_GATE_SHARE is no part of a GPU, above 0 and at most 1";
    if (!read_number("GPUYARD_GATE_SLO", &request->slo_s, 0.0, 1e9)) return "GPUYARD_GATE_SLO is no number of seconds";
    if (!read_hold("GPUYARD_GATE_HOLD", &request->hold_ns)) return "GPUYARD_GATE_HOLD is no number of seconds from 0 to 1";
    return NULL;
}
