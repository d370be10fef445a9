/* Operands of instructions. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "parser.h"

static const struct {
    const char *name;
    enum special special;
} SPECIAL_NAMES[] = {
    {"%tid.x", SPECIAL_TID_X},
    {"%tid.y", SPECIAL_TID_Y},
    {"%tid.z", SPECIAL_TID_Z},
    {"%ntid.x", SPECIAL_NTID_X},
    {"%ntid.y", SPECIAL_NTID_Y},
    {"%ntid.z", SPECIAL_NTID_Z},
    {"%ctaid.x", SPECIAL_CTAID_X},
    {"%ctaid.y", SPECIAL_CTAID_Y},
    {"%ctaid.z", SPECIAL_CTAID_Z},
    {"%nctaid.x", SPECIAL_NCTAID_X},
    {"%nctaid.y", SPECIAL_NCTAID_Y},
    {"%nctaid.z", SPECIAL_NCTAID_Z},
    {"%laneid", SPECIAL_LANEID},
    {"%warpid", SPECIAL_WARPID},
    {"%nwarpid", SPECIAL_NWARPID},
    {"%lanemask_eq", SPECIAL_LANEMASK_EQ},
    {"%lanemask_le", SPECIAL_LANEMASK_LE},
    {"%lanemask_lt", SPECIAL_LANEMASK_LT},
    {"%lanemask_ge", SPECIAL_LANEMASK_GE},
    {"%lanemask_gt", SPECIAL_LANEMASK_GT},
    {"%smid", SPECIAL_SMID},
    {"%nsmid", SPECIAL_NSMID},
    {"%clock", SPECIAL_CLOCK},
    {"%clock64", SPECIAL_CLOCK},
    {"%globaltimer", SPECIAL_TIMER},
    {"%globaltimer_lo", SPECIAL_TIMER},
    {"%globaltimer_hi", SPECIAL_TIMER_HIGH},
    {"%clock_hi", SPECIAL_ZERO},
    {"%gridid", SPECIAL_ZERO},
    {"%dynamic_smem_size", SPECIAL_DYNAMIC_SHARED_BYTES},
    {"%total_smem_size", SPECIAL_TOTAL_SHARED_BYTES},
};

/* Finds a register's or a variable's name, the innermost first. */
const struct name *find_name(const struct parser *parser, const char *text, size_t length) {
    size_t stem = length;
    while (stem > 0 && isdigit((unsigned char)text[stem - 1])) stem--;
    for (size_t i = parser->name_count; i > 0; i--) {
        const struct name *name = &parser->names[i - 1];
        size_t wanted = name->is_family ? stem : length;
        if (name->length != wanted || memcmp(name->text, text, wanted) != 0) continue;
        if (!name->is_family) return name;
        if (length - stem > 0 && length - stem < 9 && strtoul(text + stem, NULL, 10) < name->count) return name;
    }
    return NULL;
}

static bool find_special(const char *text, size_t length, struct source *source) {
    for (size_t i = 0; i < sizeof SPECIAL_NAMES / sizeof *SPECIAL_NAMES; i++) {
        if (strlen(SPECIAL_NAMES[i].name) != length || memcmp(SPECIAL_NAMES[i].name, text, length) != 0) continue;
        *source = (struct source){SOURCE_SPECIAL, SPECIAL_NAMES[i].special};
        return true;
    }
    return false;
}

static uint32_t register_index(const struct name *name, const char *text, size_t length) {
    if (!name->is_family) return name->base;
    (void)length;
    return name->base + (uint32_t)strtoul(text + name->length, NULL, 10);
}

static void read_word_operand(struct parser *parser, struct operand *operand) {
    struct token word = expect_word(parser);
    operand->text = word.text;
    operand->length = word.length;
    operand->kind = OPERAND_NAME;
    if (token_is(&word, "_")) {
        operand->kind = OPERAND_SINK;
        return;
    }
    const struct name *name = find_name(parser, word.text, word.length);
    if (name != NULL && name->kind == NAME_REGISTERS) {
        operand->kind = OPERAND_SOURCE;
        operand->source = (struct source){SOURCE_REGISTER, register_index(name, word.text, word.length)};
    } else if (find_special(word.text, word.length, &operand->source)) {
        operand->kind = OPERAND_SOURCE;
    } else if (word.text[0] == '%') {
        parse_fail(parser, "register '%.*s' is not declared, or not supported",
                   (int)(word.length < 60 ? word.length : 60), word.text);
    }
}

static void read_number(struct parser *parser, struct operand *operand) {
    operand->negated = accept_mark(parser, '-');
    struct token token = parser->tokens.now;
    if (token.kind != TOKEN_INTEGER && token.kind != TOKEN_FLOAT) parse_fail(parser, "a number is expected");
    tokens_advance(&parser->tokens);
    operand->kind = token.kind == TOKEN_INTEGER ? OPERAND_INTEGER : OPERAND_FLOAT;
    operand->number = token.integer;
    if (operand->negated && token.kind == TOKEN_INTEGER) operand->number = -token.integer;
    if (operand->negated && token.kind == TOKEN_FLOAT) operand->number ^= UINT64_C(1) << 63;
}

static void read_address(struct parser *parser, struct operand *operand) {
    if (parser->tokens.now.kind == TOKEN_WORD) read_word_operand(parser, operand);
    else read_number(parser, operand);
    if (operand->kind == OPERAND_INTEGER) operand->offset = (int64_t)operand->number;
    else if (operand->kind == OPERAND_SINK || operand->kind == OPERAND_FLOAT)
        parse_fail(parser, "this is not an address");
    if (accept_mark(parser, '+')) {
        bool negative = accept_mark(parser, '-');
        int64_t added = (int64_t)expect_integer(parser);
        operand->offset += negative ? -added : added;
    } else if (accept_mark(parser, '-')) {
        operand->offset -= (int64_t)expect_integer(parser);
    }
    if (token_is_mark(&parser->tokens.now, ',')) { /* of textures and the like, which nothing here reads */
        while (!token_is_mark(&parser->tokens.now, ']') && parser->tokens.now.kind != TOKEN_END)
            tokens_advance(&parser->tokens);
        expect_mark(parser, ']');
        *operand = (struct operand){.kind = OPERAND_LIST, .predicate = -1};
        return;
    }
    expect_mark(parser, ']');
    if (operand->kind == OPERAND_SOURCE) operand->text = NULL;
    else if (operand->kind == OPERAND_NAME) operand->source = (struct source){SOURCE_NONE, 0};
    else {
        operand->source = (struct source){SOURCE_NONE, 0};
        operand->text = NULL;
    }
    operand->kind = OPERAND_ADDRESS;
}

static void read_group(struct parser *parser, struct operand *operand, enum operand_kind kind, char end) {
    struct operand *elements = arena_take(parser->arena, 64, sizeof *elements);
    operand->kind = kind;
    if (!accept_mark(parser, end)) {
        do {
            if (operand->element_count == 64) parse_fail(parser, "there are too many operands");
            elements[operand->element_count++] = parse_operand(parser);
        } while (accept_mark(parser, ','));
        expect_mark(parser, end);
    }
    operand->elements = elements;
}

struct operand parse_operand(struct parser *parser) {
    struct operand operand = {.predicate = -1};
    if (accept_mark(parser, '[')) {
        read_address(parser, &operand);
    } else if (accept_mark(parser, '{')) {
        read_group(parser, &operand, OPERAND_VECTOR, '}');
    } else if (accept_mark(parser, '(')) {
        read_group(parser, &operand, OPERAND_LIST, ')');
    } else if (accept_mark(parser, '!')) {
        read_word_operand(parser, &operand);
        operand.negated = true;
    } else if (parser->tokens.now.kind == TOKEN_WORD) {
        read_word_operand(parser, &operand);
        if (accept_mark(parser, '|')) {
            struct operand second = {0};
            read_word_operand(parser, &second);
            if (second.kind == OPERAND_SOURCE && second.source.kind == SOURCE_REGISTER)
                operand.predicate = (int32_t)second.source.index;
            else if (second.kind == OPERAND_SINK) operand.predicate = -2;
            else parse_fail(parser, "a predicate is expected behind '|'");
        } else if (operand.kind == OPERAND_NAME && accept_mark(parser, '+')) {
            operand.offset = (int64_t)expect_integer(parser);
        }
    } else {
        read_number(parser, &operand);
    }
    return operand;
}

struct operand *parse_operands(struct parser *parser, unsigned int *count) {
    enum { MOST = 16 };
    struct operand *operands = arena_take(parser->arena, MOST, sizeof *operands);
    *count = 0;
    if (token_is_mark(&parser->tokens.now, ';')) return operands;
    do {
        if (*count == MOST) parse_fail(parser, "there are too many operands");
        operands[(*count)++] = parse_operand(parser);
    } while (accept_mark(parser, ','));
    return operands;
}

static uint32_t add_constant(struct parser *parser, uint64_t value) {
    uint32_t count = parser->function->constant_count;
    if (count == parser->constant_room) {
        size_t room = parser->constant_room == 0 ? 64 : 2 * parser->constant_room;
        uint64_t *moved = realloc(parser->constants, room * sizeof *moved);
        if (moved == NULL) parse_fail(parser, "there is no memory left");
        parser->constants = moved;
        parser->constant_room = room;
    }
    parser->constants[count] = value;
    return parser->function->constant_count++;
}

struct source constant_source(struct parser *parser, uint64_t value) {
    return (struct source){SOURCE_CONSTANT, add_constant(parser, value)};
}

/* The address of a variable of the module, or of a function. */
struct source symbol_source(struct parser *parser, const char *text, size_t length, int64_t addend) {
    char *name = arena_text(parser->arena, text, length);
    for (struct shared_variable *each = parser->module->shared; each != NULL; each = each->next) {
        if (strcmp(each->name, name) != 0) continue;
        if (!each->is_dynamic) return constant_source(parser, (uint64_t)(each->offset + addend));
        if (addend != 0) parse_fail(parser, "an offset to '%s' is not supported here", name);
        return (struct source){SOURCE_SPECIAL, SPECIAL_DYNAMIC_SHARED};
    }
    struct constant_symbol *symbol = arena_take(parser->arena, 1, sizeof *symbol);
    *symbol = (struct constant_symbol){parser->function->symbols, add_constant(parser, 0), name, addend,
                                       parser->tokens.now.line};
    parser->function->symbols = symbol;
    return (struct source){SOURCE_CONSTANT, symbol->constant};
}

static uint64_t float_bits(uint64_t bits, enum type type) {
    double value;
    memcpy(&value, &bits, sizeof value);
    if (type_bytes(type) == 8) return bits;
    if (type == TYPE_F16) return half_from_double(value);
    if (type == TYPE_BF16) return bfloat_from_double(value);
    if (value != value) return (bits >> 63) << 31 | 0x7f800000u | ((bits >> 29) & 0x7fffffu);
    float single = (float)value;
    uint32_t single_bits;
    memcpy(&single_bits, &single, sizeof single_bits);
    return single_bits;
}

struct source operand_source(struct parser *parser, const struct operand *operand, enum type type) {
    switch (operand->kind) {
        case OPERAND_SOURCE: return operand->source;
        case OPERAND_INTEGER:
            if (!type_is_float(type)) return constant_source(parser, operand->number);
            double value = operand->negated ? -(double)-operand->number : (double)operand->number;
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            return constant_source(parser, float_bits(bits, type));
        case OPERAND_FLOAT: return constant_source(parser, float_bits(operand->number, type));
        case OPERAND_NAME: {
            const struct name *name = find_name(parser, operand->text, operand->length);
            if (name == NULL) return symbol_source(parser, operand->text, operand->length, operand->offset);
            if (name->kind == NAME_SHARED || name->kind == NAME_ARGUMENT)
                return constant_source(parser, name->base + (uint64_t)operand->offset);
            parse_fail(parser, "the address of '%.*s' cannot stand here",
                       (int)(operand->length < 60 ? operand->length : 60), operand->text);
        }
        default: parse_fail(parser, "an operand is not what belongs there");
    }
}
