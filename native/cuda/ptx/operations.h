/* Instructions that compute a number from numbers, lane by lane. */
#ifndef GPUYARD_PTX_OPERATIONS_H
#define GPUYARD_PTX_OPERATIONS_H

#include "program.h"

/* One instruction for one type. The name has the modifiers that choose between instructions, as "mul.lo". */
struct operation_row {
    const char *name;
    enum type type;
    unsigned int sources;
    plain_run run;
};

/* Each ends with a name of NULL. */
extern const struct operation_row INTEGER_OPERATIONS[], BIT_OPERATIONS[], FLOAT_OPERATIONS[], HALF_OPERATIONS[];

/* The others have operands of several types, or do more than compute. */
plain_run find_compare(enum type type); /* setp and set */
plain_run find_select(void);            /* selp */
plain_run find_slct(void);
plain_run find_testp(void);
plain_run find_move(void);
plain_run find_pack(void);   /* mov of a vector into a register */
plain_run find_unpack(void); /* and back */
plain_run find_local_address(void);
plain_run find_predicate_operation(const char *name); /* and, or, xor, not on predicates */
plain_run find_convert(enum type to, enum type from);
plain_run find_convert_pair(enum type to);
plain_run find_convert_address(bool to_space);
plain_run find_is_space(void);
plain_run find_load(void);
plain_run find_store(void);
plain_run find_atomic(const char *name, enum type type);
plain_run find_nothing(void);
plain_run find_read_timer(void);
plain_run find_nap(void);

/* How the instructions that lanes execute together are numbered in `variant`. */
enum together {
    TOGETHER_SYNC,
    TOGETHER_SHUFFLE_UP,
    TOGETHER_SHUFFLE_DOWN,
    TOGETHER_SHUFFLE_BFLY,
    TOGETHER_SHUFFLE_IDX,
    TOGETHER_VOTE_ALL,
    TOGETHER_VOTE_ANY,
    TOGETHER_VOTE_UNI,
    TOGETHER_VOTE_BALLOT,
    TOGETHER_MATCH_ANY,
    TOGETHER_MATCH_ALL,
    TOGETHER_ACTIVE_MASK,
    TOGETHER_ELECT,
    TOGETHER_REDUCE_ADD,
    TOGETHER_REDUCE_MIN,
    TOGETHER_REDUCE_MAX,
    TOGETHER_REDUCE_AND,
    TOGETHER_REDUCE_OR,
    TOGETHER_REDUCE_XOR,
};

#endif
