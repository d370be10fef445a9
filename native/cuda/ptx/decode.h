/* From an instruction's name and operands to what is run: what the parts of the decoder share. */
#ifndef GPUYARD_PTX_DECODE_H
#define GPUYARD_PTX_DECODE_H

#include "operations.h"
#include "parser.h"

struct decoding {
    struct parser *parser;
    struct instruction *instruction;
    char *words[MOST_MODIFIERS]; /* behind the first dot */
    bool used[MOST_MODIFIERS];
    unsigned int word_count;
    const struct operand *operands;
    unsigned int operand_count;
};

/* Takes a modifier if it is there. What nobody takes makes the instruction an unsupported one. */
bool take(struct decoding *decoding, const char *word);

/* Takes the first of these that is there, separated by blanks, and says which; or -1. */
int take_one_of(struct decoding *decoding, const char *words);

/* Takes the next type, or TYPE_NONE. */
enum type take_type(struct decoding *decoding);

/* Takes a state space; generic if there is none. */
enum space take_space(struct decoding *decoding);

void take_rounding(struct decoding *decoding);

/* Operands by their place; fail if they are not there, or of the wrong kind. */
const struct operand *operand_at(struct decoding *decoding, unsigned int index);
void set_result(struct decoding *decoding, unsigned int index);
void set_source(struct decoding *decoding, unsigned int place, unsigned int index, enum type type);
void set_predicate_source(struct decoding *decoding, unsigned int place, unsigned int index);
void set_address(struct decoding *decoding, unsigned int index);
void set_elements(struct decoding *decoding, unsigned int index, bool written);

/* Each decodes the instructions of its kind; false: this is none of them, or is not supported. */
bool decode_arithmetic(struct decoding *decoding, const char *name);
bool decode_comparison(struct decoding *decoding, const char *name);
bool decode_memory(struct decoding *decoding, const char *name);
bool decode_control(struct decoding *decoding, const char *name);
bool decode_together(struct decoding *decoding, const char *name);

#endif
