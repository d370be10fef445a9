/* Time as a kernel sees it.
 *
 * How long a kernel takes is not found by counting its instructions. Only what a kernel does about time takes any here: a
 * look at the timer takes as long as the timer needs to change, and a nap as long as was asked. So a kernel that waits
 * for a time takes that time, whatever the host is doing.
 */
#include "operations.h"
#include "values.h"

#define TIMER_STEP_NS 1000 /* how often the timer changes: GPUs differ, and some microsecond is usual */
#define LONGEST_NAP_NS 1000000

static void read_timer(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    warp->passed_ns += TIMER_STEP_NS;
    uint64_t now = warp->block->launch->start_ns + warp->passed_ns;
    uint64_t *to = result_values(warp, instruction->to);
    uint64_t bits = instruction->from[0].index == SPECIAL_TIMER_HIGH ? now >> 32 : now;
    if (type_bytes(instruction->type) == 4) bits &= UINT32_MAX;
    FOR_LANES(lanes, to[lane] = bits);
}

plain_run find_read_timer(void) { return read_timer; }

static void nap(struct warp *warp, const struct instruction *instruction, uint32_t lanes) {
    const uint64_t *asked = source_values(warp, instruction->from[0]);
    uint64_t longest = 0;
    FOR_LANES(lanes, longest = asked[lane] > longest ? asked[lane] : longest);
    warp->passed_ns += longest < LONGEST_NAP_NS ? longest : LONGEST_NAP_NS;
}

plain_run find_nap(void) { return nap; }
