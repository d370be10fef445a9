/* Reading PTX: what the parts of the parser share. */
#ifndef GPUYARD_PTX_PARSER_H
#define GPUYARD_PTX_PARSER_H

#include <setjmp.h>

#include "arena.h"
#include "program.h"
#include "tokens.h"

#define MOST_REGISTERS (1u << 16)
#define MOST_BYTES (1u << 28) /* of a variable */

enum name_kind { NAME_REGISTERS, NAME_FRAME, NAME_ARGUMENT, NAME_SHARED };

/* A name that a function's text has introduced: registers, one or a family as %r<5>, or a variable. */
struct name {
    const char *text;
    size_t length;
    enum name_kind kind;
    bool is_family;
    enum type type;       /* of registers */
    uint32_t base, count; /* registers, or a place in memory and its bytes */
};

enum operand_kind {
    OPERAND_SOURCE,
    OPERAND_INTEGER,
    OPERAND_FLOAT,
    OPERAND_NAME,
    OPERAND_ADDRESS,
    OPERAND_VECTOR,
    OPERAND_SINK,
    OPERAND_LIST,
};

struct operand {
    enum operand_kind kind;
    struct source source; /* a register or a special one; of an address its base, if that is one */
    uint64_t number;      /* an integer, or the bits of a float as f64 */
    const char *text;     /* a name; of an address its base, if that is one */
    size_t length;
    int64_t offset;           /* of an address */
    bool negated;             /* !p, or a number behind a minus */
    int32_t predicate;        /* of d|p; -1: none, -2: dropped */
    struct operand *elements; /* of a vector or a list */
    unsigned int element_count;
};

struct label {
    struct label *next;
    const char *text;
    size_t length;
    uint32_t scope, place;
};

/* A use of a label, and where its number goes. */
struct label_use {
    struct label_use *next;
    const char *text;
    size_t length;
    uint32_t scope, line;
    uint32_t *place;
    uint32_t instruction; /* whose target it is, if place is NULL */
};

/* .branchtargets: where an indexed branch may go. */
struct branch_targets {
    struct branch_targets *next;
    const char *text;
    size_t length;
    uint32_t *targets;
    uint32_t count;
};

struct parser {
    struct tokens tokens;
    struct ptx_module *module;
    struct arena *arena;
    jmp_buf failed;
    char *message;

    /* of the function that is read */
    struct ptx_function *function;
    struct name *names;
    size_t name_count, name_room;
    uint32_t *scope_parents;
    uint32_t scope, scope_count, scope_room;
    struct label *labels;
    struct label_use *label_uses;
    struct branch_targets *branch_targets;
    uint32_t frame_used;
    size_t code_room, constant_room;
    uint64_t *constants;
};

/* Ends the reading with a line that says what is wrong, and where. */
_Noreturn __attribute__((format(printf, 2, 3))) void parse_fail(struct parser *parser, const char *format, ...);

/* Small steps. */
void expect_mark(struct parser *parser, char mark);
bool accept_mark(struct parser *parser, char mark);
bool accept_word(struct parser *parser, const char *word);
struct token expect_word(struct parser *parser);
uint64_t expect_integer(struct parser *parser);

/* A declaration as ".align 4 .b8 name[16]"; its state space has been read. */
struct declaration {
    enum type type;
    uint32_t alignment;
    const char *text;
    size_t length;
    uint64_t bytes;
    bool is_sized; /* not name[] */
};

struct declaration read_declaration(struct parser *parser);

/* parse_function.c: a function from behind ".entry" or ".func" on. */
void parse_function(struct parser *parser, bool is_kernel);

/* parse_names.c: registers and variables, from behind ".reg", ".local", ".param" or ".shared" on. */
void add_name(struct parser *parser, struct name name);
void read_registers(struct parser *parser);
void read_frame_variable(struct parser *parser);
void read_shared_variable(struct parser *parser);

static inline uint32_t align_to(uint32_t offset, uint32_t alignment) {
    return (offset + alignment - 1) & ~(alignment - 1);
}

/* parse_instruction.c */
struct instruction *add_instruction(struct parser *parser);
void read_instruction(struct parser *parser);
void read_branch_targets(struct parser *parser, const struct token *label);
void resolve_labels(struct parser *parser);

/* parse_operand.c */
struct operand parse_operand(struct parser *parser);
struct operand *parse_operands(struct parser *parser, unsigned int *count);
const struct name *find_name(const struct parser *parser, const char *text, size_t length);
struct source operand_source(struct parser *parser, const struct operand *operand, enum type type);
struct source constant_source(struct parser *parser, uint64_t value);
struct source symbol_source(struct parser *parser, const char *text, size_t length, int64_t addend);

/* decode.c: fills in an instruction whose name has been read. */
void decode(struct parser *parser, struct instruction *instruction, const char *name, struct operand *operands,
            unsigned int count);

#endif
