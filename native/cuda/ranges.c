#include "ranges.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct range *ranges; /* by their start; they never overlap */
static size_t count, room;

/* Returns how many start at an address or before it. */
static size_t count_up_to(uintptr_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle].start <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

bool range_add(struct range range) {
    static unsigned long long last_id;
    pthread_rwlock_wrlock(&lock);
    if (count == room) {
        size_t more = room == 0 ? 64 : 2 * room;
        struct range *moved = realloc(ranges, more * sizeof *ranges);
        if (moved == NULL) {
            pthread_rwlock_unlock(&lock);
            return false;
        }
        ranges = moved;
        room = more;
    }
    size_t place = count_up_to(range.start);
    memmove(&ranges[place + 1], &ranges[place], (count - place) * sizeof *ranges);
    range.id = ++last_id;
    ranges[place] = range;
    count++;
    pthread_rwlock_unlock(&lock);
    return true;
}

static void take_out(size_t place, struct range *taken) {
    *taken = ranges[place];
    count--;
    memmove(&ranges[place], &ranges[place + 1], (count - place) * sizeof *ranges);
}

bool range_take(uintptr_t start, unsigned int kinds, struct range *taken) {
    pthread_rwlock_wrlock(&lock);
    size_t place = count_up_to(start);
    bool found = place > 0 && ranges[place - 1].start == start && (kinds & ANY_OF(ranges[place - 1].kind));
    if (found) take_out(place - 1, taken);
    pthread_rwlock_unlock(&lock);
    return found;
}

bool range_take_of(const struct context *context, struct range *taken) {
    bool found = false;
    pthread_rwlock_wrlock(&lock);
    for (size_t i = count; i > 0 && !found; i--) {
        found = ranges[i - 1].context == context;
        if (found) take_out(i - 1, taken);
    }
    pthread_rwlock_unlock(&lock);
    return found;
}

bool range_find(uintptr_t address, struct range *found) {
    pthread_rwlock_rdlock(&lock);
    size_t place = count_up_to(address);
    bool inside = place > 0 && address - ranges[place - 1].start < ranges[place - 1].bytes;
    if (inside) *found = ranges[place - 1];
    pthread_rwlock_unlock(&lock);
    return inside;
}

bool range_holds(uintptr_t address, size_t bytes, struct range *found) {
    return range_find(address, found) && bytes <= found->bytes - (address - found->start);
}
