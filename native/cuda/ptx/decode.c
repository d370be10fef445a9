#include "decode.h"

#include <string.h>

bool take(struct decoding *decoding, const char *word) {
    for (unsigned int i = 0; i < decoding->word_count; i++) {
        if (decoding->used[i] || strcmp(decoding->words[i], word) != 0) continue;
        decoding->used[i] = true;
        return true;
    }
    return false;
}

int take_one_of(struct decoding *decoding, const char *words) {
    int number = 0;
    for (const char *word = words; *word != '\0'; number++) {
        size_t length = strcspn(word, " ");
        char one[32];
        memcpy(one, word, length);
        one[length] = '\0';
        if (take(decoding, one)) return number;
        word += length + (word[length] == ' ');
    }
    return -1;
}

enum type take_type(struct decoding *decoding) {
    for (unsigned int i = 0; i < decoding->word_count; i++) {
        enum type type;
        if (decoding->used[i] || !read_type(decoding->words[i], strlen(decoding->words[i]), &type)) continue;
        decoding->used[i] = true;
        return type;
    }
    return TYPE_NONE;
}

enum space take_space(struct decoding *decoding) {
    static const enum space spaces[] = {SPACE_GLOBAL, SPACE_CONST,  SPACE_SHARED, SPACE_LOCAL,
                                        SPACE_PARAM,  SPACE_SHARED, SPACE_PARAM,  SPACE_PARAM};
    int which = take_one_of(decoding, "global const shared local param shared::cta param::entry param::func");
    return which < 0 ? SPACE_GENERIC : spaces[which];
}

void take_rounding(struct decoding *decoding) {
    int which = take_one_of(decoding, "rn rz rm rp");
    if (which >= 0) decoding->instruction->rounding = (enum rounding)which;
}

const struct operand *operand_at(struct decoding *decoding, unsigned int index) {
    if (index >= decoding->operand_count)
        parse_fail(decoding->parser, "%s has too few operands", decoding->instruction->name);
    return &decoding->operands[index];
}

void set_result(struct decoding *decoding, unsigned int index) {
    const struct operand *operand = operand_at(decoding, index);
    if (operand->kind == OPERAND_SINK) return;
    if (operand->kind != OPERAND_SOURCE || operand->source.kind != SOURCE_REGISTER)
        parse_fail(decoding->parser, "the result of %s is no register", decoding->instruction->name);
    decoding->instruction->to = (int32_t)operand->source.index;
    decoding->instruction->to_predicate = operand->predicate >= 0 ? operand->predicate : -1;
}

void set_source(struct decoding *decoding, unsigned int place, unsigned int index, enum type type) {
    decoding->instruction->from[place] = operand_source(decoding->parser, operand_at(decoding, index), type);
}

void set_predicate_source(struct decoding *decoding, unsigned int place, unsigned int index) {
    set_source(decoding, place, index, TYPE_PRED);
    decoding->instruction->negated_predicate = operand_at(decoding, index)->negated;
}

/* Decides what an address is in: parameters of functions, and of calls, lie in the function's own memory. */
void set_address(struct decoding *decoding, unsigned int index) {
    const struct operand *operand = operand_at(decoding, index);
    struct instruction *instruction = decoding->instruction;
    struct parser *parser = decoding->parser;
    if (operand->kind != OPERAND_ADDRESS) parse_fail(parser, "%s needs an address", instruction->name);
    instruction->offset = operand->offset;
    instruction->from[0] = operand->source;
    if (instruction->space == SPACE_PARAM && !parser->function->is_kernel) instruction->space = SPACE_LOCAL;
    if (operand->text == NULL) return;
    const struct name *name = find_name(parser, operand->text, operand->length);
    if (name == NULL) {
        instruction->from[0] = symbol_source(parser, operand->text, operand->length, 0);
        return;
    }
    instruction->offset += name->base;
    instruction->from[0] = (struct source){SOURCE_NONE, 0};
    if (name->kind == NAME_FRAME) {
        instruction->space = SPACE_LOCAL;
        instruction->frame_relative = true;
    } else {
        instruction->space = name->kind == NAME_ARGUMENT ? SPACE_PARAM : SPACE_SHARED;
    }
}

void set_elements(struct decoding *decoding, unsigned int index, bool written) {
    const struct operand *vector = operand_at(decoding, index);
    struct instruction *instruction = decoding->instruction;
    if (vector->kind != OPERAND_VECTOR || vector->element_count == 0 || vector->element_count > MOST_ELEMENTS)
        parse_fail(decoding->parser, "%s needs a vector", instruction->name);
    instruction->element_count = vector->element_count;
    for (unsigned int i = 0; i < vector->element_count; i++) {
        const struct operand *element = &vector->elements[i];
        bool is_register = element->kind == OPERAND_SOURCE && element->source.kind == SOURCE_REGISTER;
        if (!written) instruction->element_sources[i] = operand_source(decoding->parser, element, instruction->type);
        else if (is_register) instruction->elements[i] = element->source.index;
        else if (element->kind == OPERAND_SINK) instruction->elements[i] = UINT32_MAX;
        else parse_fail(decoding->parser, "an element of the result of %s is no register", instruction->name);
    }
}

static void split_name(struct decoding *decoding, char *name) {
    char *rest = strchr(name, '.');
    while (rest != NULL) {
        *rest++ = '\0';
        if (decoding->word_count == MOST_MODIFIERS)
            parse_fail(decoding->parser, "an instruction has too many modifiers");
        decoding->words[decoding->word_count++] = rest;
        rest = strchr(rest, '.');
    }
}

void decode(struct parser *parser, struct instruction *instruction, const char *name, struct operand *operands,
            unsigned int count) {
    struct decoding decoding = {
        .parser = parser, .instruction = instruction, .operands = operands, .operand_count = count};
    char *mnemonic = arena_text(parser->arena, name, strlen(name));
    split_name(&decoding, mnemonic);
    struct instruction before = *instruction;
    static bool (*const kinds[])(struct decoding *, const char *) = {decode_arithmetic, decode_comparison,
                                                                     decode_memory, decode_control, decode_together};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        bool known = kinds[kind](&decoding, mnemonic);
        for (unsigned int i = 0; i < decoding.word_count; i++) known = known && decoding.used[i];
        if (known) return;
        memset(decoding.used, 0, sizeof decoding.used);
        *instruction = before;
    }
    instruction->control = CONTROL_UNSUPPORTED; /* whoever reaches it is told */
}
