#include "message.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_BYTES 1024
#define MOST_TEXTS 1024

static void say(const char *text) { fprintf(stderr, "gpuyard: libcuda: %s\n", text); }

/* Remembers texts by their hash; when there is no more room, everything counts as said. */
static bool is_new(const char *text) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t said[MOST_TEXTS];
    static unsigned int count;
    uint64_t hash = 14695981039346656037u;
    for (const char *byte = text; *byte != '\0'; byte++) hash = (hash ^ (unsigned char)*byte) * 1099511628211u;
    pthread_mutex_lock(&lock);
    bool found = count == MOST_TEXTS;
    for (unsigned int i = 0; i < count && !found; i++) found = said[i] == hash;
    if (!found) said[count++] = hash;
    pthread_mutex_unlock(&lock);
    return !found;
}

void complain(const char *format, ...) {
    char text[LINE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    say(text);
}

void complain_once(const char *format, ...) {
    char text[LINE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (is_new(text)) say(text);
}

void trace_once(const char *format, ...) {
    const char *wanted = getenv("GPUYARD_TRACE");
    if (wanted == NULL || *wanted == '\0' || *wanted == '0') return;
    char text[LINE_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (is_new(text)) say(text);
}
