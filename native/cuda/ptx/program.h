/* A PTX program in memory: functions as arrays of decoded instructions. */
#ifndef GPUYARD_PTX_PROGRAM_H
#define GPUYARD_PTX_PROGRAM_H

#include "ptx.h"

#define LANES 32
#define MOST_SOURCES 5
#define MOST_ELEMENTS 8 /* of a vector operand */
#define MOST_MODIFIERS 16

enum type {
    TYPE_NONE,
    TYPE_PRED,
    TYPE_B8,
    TYPE_U8,
    TYPE_S8,
    TYPE_B16,
    TYPE_U16,
    TYPE_S16,
    TYPE_B32,
    TYPE_U32,
    TYPE_S32,
    TYPE_B64,
    TYPE_U64,
    TYPE_S64,
    TYPE_F16,
    TYPE_F16X2,
    TYPE_BF16,
    TYPE_BF16X2,
    TYPE_F32,
    TYPE_F64,
    TYPE_B128,
};

bool read_type(const char *text, size_t length, enum type *type);
unsigned int type_bytes(enum type type);
bool type_is_signed(enum type type);
bool type_is_float(enum type type);

enum space { SPACE_GENERIC, SPACE_GLOBAL, SPACE_CONST, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM };

/* Where the value of an operand comes from: each is an array with one number for each lane of a warp. */
enum source_kind { SOURCE_NONE, SOURCE_REGISTER, SOURCE_CONSTANT, SOURCE_SPECIAL };

struct source {
    enum source_kind kind;
    uint32_t index;
};

enum special {
    SPECIAL_TID_X,
    SPECIAL_TID_Y,
    SPECIAL_TID_Z,
    SPECIAL_NTID_X,
    SPECIAL_NTID_Y,
    SPECIAL_NTID_Z,
    SPECIAL_CTAID_X,
    SPECIAL_CTAID_Y,
    SPECIAL_CTAID_Z,
    SPECIAL_NCTAID_X,
    SPECIAL_NCTAID_Y,
    SPECIAL_NCTAID_Z,
    SPECIAL_LANEID,
    SPECIAL_WARPID,
    SPECIAL_NWARPID,
    SPECIAL_LANEMASK_EQ,
    SPECIAL_LANEMASK_LE,
    SPECIAL_LANEMASK_LT,
    SPECIAL_LANEMASK_GE,
    SPECIAL_LANEMASK_GT,
    SPECIAL_SMID,
    SPECIAL_NSMID,
    SPECIAL_CLOCK,
    SPECIAL_TIMER,
    SPECIAL_TIMER_HIGH,
    SPECIAL_DYNAMIC_SHARED_BYTES,
    SPECIAL_TOTAL_SHARED_BYTES,
    SPECIAL_DYNAMIC_SHARED, /* not a register of PTX: where shared memory of no size begins */
    SPECIAL_ZERO,           /* nor this: the upper halves of some 64-bit registers, and grid and cluster numbers */
    SPECIALS,
};

struct warp;
struct instruction;

typedef void (*plain_run)(struct warp *warp, const struct instruction *instruction, uint32_t lanes);

/* Instructions that only compute are PLAIN; the others decide what comes next. */
enum control {
    CONTROL_PLAIN,
    CONTROL_BRANCH,
    CONTROL_BRANCH_INDEXED,
    CONTROL_CALL,
    CONTROL_RETURN,
    CONTROL_EXIT,
    CONTROL_BARRIER,
    CONTROL_WARP,
    CONTROL_TRAP,
    CONTROL_UNSUPPORTED,
};

enum rounding { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP };

enum comparison {
    COMPARE_EQ,
    COMPARE_NE,
    COMPARE_LT,
    COMPARE_LE,
    COMPARE_GT,
    COMPARE_GE,
    COMPARE_NUM,
    COMPARE_NAN,
};

enum combination { COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR };

struct instruction {
    plain_run run;
    enum control control;
    int32_t guard; /* register of the predicate; -1: always */
    bool guard_negated;
    uint32_t line;
    const char *name; /* as it stands in the text */

    int32_t to, to_predicate; /* registers; -1: none, and what would be written is dropped */
    struct source from[MOST_SOURCES];
    uint32_t elements[MOST_ELEMENTS]; /* registers of a vector; its numbers, if it is read, are `from` those */
    struct source element_sources[MOST_ELEMENTS];
    unsigned int element_count;

    enum type type, from_type;
    enum space space;
    int64_t offset; /* of an address */
    enum rounding rounding;
    enum comparison comparison;
    enum combination combination;
    unsigned int variant; /* which of several, as each instruction counts them */
    bool frame_relative;  /* the address is one in the function's own memory */
    bool saturates, flushes, unordered, negated_predicate, carries_out, carries_in, relu;

    uint32_t target;         /* of a branch */
    const uint32_t *targets; /* of an indexed one */
    uint32_t target_count;
    const struct call *call;
};

/* A variable, or a parameter, that lies in a function's own memory. */
struct slot {
    uint32_t offset, bytes;
};

struct call {
    const struct ptx_function *function; /* NULL: the address of one is in from[0] */
    const struct slot *arguments, *results;
    uint32_t argument_count, result_count;
};

enum builtin { BUILTIN_NONE, BUILTIN_PRINTF, BUILTIN_ASSERT, BUILTIN_MALLOC, BUILTIN_FREE };

struct ptx_function {
    struct ptx_function *next;
    const char *name;
    bool is_kernel, is_defined;
    enum builtin builtin;
    struct instruction *code;
    uint32_t length;
    uint32_t register_count;
    uint64_t (*constants)[LANES];
    uint32_t constant_count;
    struct constant_symbol *symbols; /* constants that are addresses, known only once all is placed */
    struct slot *parameters, *results;
    uint32_t parameter_count, result_count;
    uint32_t frame_bytes; /* of each thread: parameters of calls, and local variables */
    uint32_t argument_bytes;
    unsigned int max_threads;
};

/* A constant of a function that stands for the address of a variable or a function. */
struct constant_symbol {
    struct constant_symbol *next;
    uint32_t constant;
    const char *name;
    int64_t addend;
    uint32_t line;
};

/* A first value that is the address of a variable. */
struct initial_symbol {
    struct initial_symbol *next;
    size_t offset, bytes;
    const char *name;
    int64_t addend;
};

struct variable {
    struct variable *next;
    struct ptx_variable seen;
    bool is_extern;
    unsigned char *initial; /* NULL: zeros */
    struct initial_symbol *symbols;
};

/* A variable in shared memory that belongs to the whole module. */
struct shared_variable {
    struct shared_variable *next;
    const char *name;
    uint32_t offset;
    bool is_dynamic; /* its size is said at the launch */
};

struct ptx_module {
    struct arena *arena;
    struct ptx_function *functions;
    struct variable *variables;
    struct shared_variable *shared;
    uint32_t shared_bytes;     /* of each block: all that the functions have */
    uint32_t frame_alignment;  /* the largest that a variable of a frame asks for */
    uint32_t frame_sum,
        register_sum; /* over all functions that are no kernels: as deep as calls without recursion go */
};

struct ptx_function *module_function(const struct ptx_module *module, const char *name);
struct variable *module_variable(const struct ptx_module *module, const char *name);

#endif
