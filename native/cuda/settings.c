#include "settings.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "message.h"

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value == NULL || *value == '\0' ? NULL : value;
}

static bool refuse(const char *name, const char *value, const char *rule) {
    complain("%s=%s %s", name, value, rule);
    return false;
}

/* Reads a number above `least` and at most `most`; one that is not set keeps its value. */
static bool read_number(const char *name, double least, double most, double *number) {
    const char *text = variable(name);
    if (text == NULL) return true;
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > least && value <= most)) return refuse(name, text, "is out of range");
    *number = value;
    return true;
}

struct unit {
    const char *name;
    double factor;
};

static bool read_amount(const char *text, const struct unit *units, double *amount) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || !(number >= 0) || isinf(number)) return false;
    while (isspace((unsigned char)*end)) end++;
    for (const struct unit *unit = units; unit->name != NULL; unit++) {
        if (strcasecmp(end, unit->name) != 0) continue;
        *amount = number * unit->factor;
        return true;
    }
    return false;
}

static bool read_memory_limit(uint64_t *limit) {
    static const struct unit bytes[] = {{"", 1e9},          {"mb", 1e6},           {"gb", 1e9},
                                        {"mib", 1048576.0}, {"gib", 1073741824.0}, {NULL, 0}};
    const char *text = variable("GPUYARD_MEMORY_LIMIT");
    if (text == NULL) return true;
    double amount;
    if (!read_amount(text, bytes, &amount) || amount < 1 || amount > 1e18)
        return refuse("GPUYARD_MEMORY_LIMIT", text, "is not an amount of memory as 4GiB or 500MB");
    *limit = (uint64_t)amount;
    return true;
}

static bool read_clock(enum clock_kind *clock) {
    static const char *const names[] = {"real", "virtual", "device"};
    const char *text = variable("GPUYARD_CLOCK");
    for (unsigned int i = 0; i < 3; i++) {
        if (text != NULL && strcmp(text, names[i]) != 0) continue;
        *clock = (enum clock_kind)i;
        return true;
    }
    return refuse("GPUYARD_CLOCK", text, "is not a clock: real, virtual or device");
}

static bool read_option(const char *text, size_t length, struct gpuyard_sharing *sharing) {
    static const struct unit spans[] = {{"ms", 1e-3}, {"us", 1e-6}, {"s", 1.0}, {NULL, 0}};
    static const struct unit plain[] = {{"", 1.0}, {NULL, 0}};
    const struct {
        const char *name;
        const struct unit *units;
        double *value;
    } options[] = {{"quantum=", spans, &sharing->quantum_s},
                   {"switch=", spans, &sharing->switch_s},
                   {"capacity=", plain, &sharing->capacity},
                   {"interference=", plain, &sharing->interference}};
    char word[64];
    if (length >= sizeof word) return false;
    memcpy(word, text, length);
    word[length] = '\0';
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (strncmp(word, options[i].name, strlen(options[i].name)) == 0 && *options[i].value != 0)
            return read_amount(word + strlen(options[i].name), options[i].units, options[i].value);
    return false;
}

/* A policy's options as they are unless said otherwise; gpuyard/policies/timeshare says what they mean. */
static const struct gpuyard_sharing USUAL[] = {
    {.policy = GPUYARD_TIME_SLICE, .quantum_s = 0.002, .switch_s = 10e-6},
    {.policy = GPUYARD_FIFO},
    {.policy = GPUYARD_PRIORITY, .quantum_s = 0.002, .switch_s = 10e-6},
    {.policy = GPUYARD_SPATIAL, .capacity = 1.0, .interference = 0.95},
    {.policy = GPUYARD_PARTITION},
    {.policy = GPUYARD_EXCLUSIVE},
};

bool read_sharing(const char *text, struct gpuyard_sharing *sharing) {
    *sharing = USUAL[0];
    if (text == NULL) return true;
    size_t length = strcspn(text, ":");
    size_t policy = 0, count = sizeof USUAL / sizeof *USUAL;
    while (policy < count && (strlen(gpuyard_policy_name(USUAL[policy].policy)) != length ||
                              strncmp(gpuyard_policy_name(USUAL[policy].policy), text, length) != 0))
        policy++;
    if (policy == count) return refuse("GPUYARD_SHARING", text, "is not a sharing policy");
    *sharing = USUAL[policy];
    for (const char *option = text + length; *option != '\0';) {
        option++;
        size_t bytes = strcspn(option, ",");
        if (!read_option(option, bytes, sharing))
            return refuse("GPUYARD_SHARING", text, "has an option that is unknown or wrong");
        option += bytes;
    }
    return true;
}

/* As CUDA does: everything from the first invalid entry on is hidden. */
static bool read_visible(struct settings *settings) {
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    settings->visible_count = 0;
    if (text == NULL) {
        for (unsigned int i = 0; i < settings->gpu_count; i++) settings->visible[settings->visible_count++] = i;
        return true;
    }
    for (const char *entry = text;;) {
        char *end;
        while (*entry == ' ') entry++;
        if (!isdigit((unsigned char)*entry)) return true;
        unsigned long number = strtoul(entry, &end, 10);
        while (*end == ' ') end++;
        if (number >= settings->gpu_count || (*end != ',' && *end != '\0')) return true;
        for (unsigned int i = 0; i < settings->visible_count; i++)
            if (settings->visible[i] == number) return refuse("CUDA_VISIBLE_DEVICES", text, "names a GPU twice");
        settings->visible[settings->visible_count++] = (unsigned int)number;
        if (*end == '\0') return true;
        entry = end + 1;
    }
}

/* Programs that ask for the same machine find each other on it: settings.py, `node_name`. */
static bool name_node(const char *gpus, const char *sharing, struct settings *settings) {
    const char *name = variable("GPUYARD_NODE");
    char speed[32] = "";
    if (settings->speed != 1.0) snprintf(speed, sizeof speed, "@%g", settings->speed);
    int length = name != NULL ? snprintf(settings->node, sizeof settings->node, "%s", name)
                              : snprintf(settings->node, sizeof settings->node, "%s%s%s%s", gpus, speed,
                                         sharing == NULL ? "" : ",", sharing == NULL ? "" : sharing);
    return length < (int)sizeof settings->node ||
           refuse("GPUYARD_NODE", name == NULL ? gpus : name, "is too long a name");
}

bool read_settings(struct settings *settings) {
    const char *gpus = variable("GPUYARD_GPUS"), *sharing = variable("GPUYARD_SHARING");
    const char *execute = variable("GPUYARD_EXECUTE");
    if (gpus == NULL) {
        complain("GPUYARD_GPUS is not set: there are no emulated GPUs; try GPUYARD_GPUS=A100");
        return false;
    }
    double priority = 0;
    *settings = (struct settings){.speed = 1.0, .terms = GPUYARD_USUAL_TERMS};
    settings->execute = execute == NULL || strcmp(execute, "0") != 0;
    if (!read_gpus(gpus, settings) || !read_visible(settings) || !read_clock(&settings->clock) ||
        !read_number("GPUYARD_SPEED", 0, 1e9, &settings->speed) || !read_sharing(sharing, &settings->sharing) ||
        !read_number("GPUYARD_PRIORITY", -1e9, 1e9, &priority) ||
        !read_number("GPUYARD_SHARE", 0, 1, &settings->terms.share) ||
        !read_memory_limit(&settings->terms.memory_limit))
        return false;
    settings->terms.priority = (int64_t)priority;
    settings->terms.demand = settings->terms.share;
    return name_node(gpus, sharing, settings);
}
