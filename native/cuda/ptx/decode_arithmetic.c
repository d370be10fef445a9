/* Instructions that compute one number of one type: a row for each name says what may stand behind it. */
#include <string.h>

#include "decode.h"

enum {
    MAY_ROUND = 1,           /* .rn .rz .rm .rp */
    MAY_FLUSH = 2,           /* .ftz */
    MAY_SATURATE = 4,        /* .sat, on floats */
    MAY_CARRY = 8,           /* .cc */
    MAY_APPROXIMATE = 16,    /* .approx .full */
    MAY_HAND_ON_NAN = 32,    /* .NaN */
    MAY_SATURATE_WHOLE = 64, /* .sat, on whole numbers */
    CARRIES_IN = 128,
    MAY_CLIP = 256, /* .relu */
};

static const struct {
    const char *name, *looked_up; /* in the tables of operations */
    unsigned int allowed;
    const char *variants; /* one of these must be there */
} RULES[] = {
    {"add", "add", MAY_ROUND | MAY_FLUSH | MAY_SATURATE | MAY_CARRY | MAY_SATURATE_WHOLE, NULL},
    {"sub", "sub", MAY_ROUND | MAY_FLUSH | MAY_SATURATE | MAY_CARRY | MAY_SATURATE_WHOLE, NULL},
    {"addc", "add", MAY_CARRY | CARRIES_IN, NULL},
    {"subc", "sub", MAY_CARRY | CARRIES_IN, NULL},
    {"madc", "mad", MAY_CARRY | CARRIES_IN, "lo hi"},
    {"mul24", "mul24", 0, "lo hi"},
    {"mad24", "mad24", 0, "lo"},
    {"fma", "fma", MAY_ROUND | MAY_FLUSH | MAY_SATURATE | MAY_CLIP, NULL},
    {"div", "div", MAY_ROUND | MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"rem", "rem", 0, NULL},
    {"sad", "sad", 0, NULL},
    {"abs", "abs", MAY_FLUSH, NULL},
    {"neg", "neg", MAY_FLUSH, NULL},
    {"min", "min", MAY_FLUSH | MAY_HAND_ON_NAN, NULL},
    {"max", "max", MAY_FLUSH | MAY_HAND_ON_NAN, NULL},
    {"rcp", "rcp", MAY_ROUND | MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"sqrt", "sqrt", MAY_ROUND | MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"rsqrt", "rsqrt", MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"sin", "sin", MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"cos", "cos", MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"lg2", "lg2", MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"ex2", "ex2", MAY_FLUSH | MAY_APPROXIMATE, NULL},
    {"tanh", "tanh", MAY_APPROXIMATE, NULL},
    {"copysign", "copysign", 0, NULL},
    {"not", "not", 0, NULL},
    {"cnot", "cnot", 0, NULL},
    {"and", "and", 0, NULL},
    {"or", "or", 0, NULL},
    {"xor", "xor", 0, NULL},
    {"shl", "shl", 0, NULL},
    {"shr", "shr", 0, NULL},
    {"lop3", "lop3", 0, NULL},
    {"shf", "shf", 0, "l r"},
    {"popc", "popc", 0, NULL},
    {"clz", "clz", 0, NULL},
    {"bfind", "bfind", 0, NULL},
    {"brev", "brev", 0, NULL},
    {"bfe", "bfe", 0, NULL},
    {"bfi", "bfi", 0, NULL},
    {"bmsk", "bmsk", 0, "clamp wrap"},
    {"prmt", "prmt", 0, NULL},
    {"dp4a", "dp4a", 0, NULL},
};

static const struct operation_row *find_row(const char *name, enum type type) {
    static const struct operation_row *const tables[] = {INTEGER_OPERATIONS, BIT_OPERATIONS, FLOAT_OPERATIONS,
                                                         HALF_OPERATIONS};
    for (size_t table = 0; table < sizeof tables / sizeof *tables; table++)
        for (const struct operation_row *row = tables[table]; row->name != NULL; row++)
            if (row->type == type && strcmp(row->name, name) == 0) return row;
    return NULL;
}

static void append(char *key, const char *word) {
    strcat(key, ".");
    strcat(key, word);
}

/* Modifiers of single instructions that become part of the name that is looked up, or its `variant`. */
static void take_special_words(struct decoding *decoding, const char *name, char *key) {
    struct instruction *instruction = decoding->instruction;
    if (strcmp(name, "shf") == 0)
        append(key, take(decoding, "clamp") ? "clamp" : take(decoding, "wrap") ? "wrap" : "none");
    if (strcmp(name, "bfind") == 0) instruction->variant = take(decoding, "shiftamt");
    if (strcmp(name, "prmt") == 0)
        instruction->variant = (unsigned int)(take_one_of(decoding, "f4e b4e rc8 ecl ecr rc16") + 1);
}

static void take_allowed(struct decoding *decoding, unsigned int allowed, enum type type, char *key) {
    struct instruction *instruction = decoding->instruction;
    bool is_float = type_is_float(type);
    if (allowed & MAY_ROUND && is_float) take_rounding(decoding);
    if (allowed & MAY_CLIP && is_float) instruction->relu = take(decoding, "relu");
    if (allowed & MAY_HAND_ON_NAN && is_float) instruction->variant = take(decoding, "NaN");
    bool approximate = allowed & MAY_APPROXIMATE && is_float && take_one_of(decoding, "approx full") >= 0;
    if (approximate && type == TYPE_F64) append(key, "upper");
    bool flushable = is_float && (type != TYPE_F64 || approximate);
    if (allowed & MAY_FLUSH && flushable) instruction->flushes = take(decoding, "ftz");
    if (allowed & MAY_SATURATE && is_float) instruction->saturates = take(decoding, "sat");
    if (allowed & MAY_SATURATE_WHOLE && !is_float && take(decoding, "sat")) append(key, "sat");
    instruction->carries_in = (allowed & CARRIES_IN) != 0;
    instruction->carries_out = allowed & MAY_CARRY && take(decoding, "cc");
    if (instruction->carries_in || instruction->carries_out) append(key, "chain");
}

static bool finish(struct decoding *decoding, const char *key, enum type type) {
    const struct operation_row *row = find_row(key, type);
    if (row == NULL) return false;
    if (decoding->operand_count != row->sources + 1) return false;
    decoding->instruction->run = row->run;
    set_result(decoding, 0);
    if (decoding->operands[0].predicate != -1) return false; /* only some newer forms have a second result */
    for (unsigned int i = 0; i < row->sources; i++) set_source(decoding, i, i + 1, type);
    return true;
}

/* mul and mad have a part to be chosen if they are on whole numbers, and none on floats. */
static bool decode_product(struct decoding *decoding, const char *name) {
    enum type type = take_type(decoding);
    char key[64];
    strcpy(key, name);
    decoding->instruction->type = type;
    if (type_is_float(type)) {
        take_allowed(decoding, MAY_ROUND | MAY_FLUSH | MAY_SATURATE, type, key);
        return finish(decoding, key, type);
    }
    static const char *const parts[] = {"lo", "hi", "wide"};
    int part = take_one_of(decoding, "lo hi wide");
    if (part < 0) return false;
    append(key, parts[part]);
    take_allowed(decoding, strcmp(name, "mad") == 0 ? MAY_CARRY | MAY_SATURATE_WHOLE : 0, type, key);
    return finish(decoding, key, type);
}

/* dp4a has two types, of which only the signs matter. */
static bool decode_dot(struct decoding *decoding) {
    enum type a = take_type(decoding), b = take_type(decoding);
    if ((a != TYPE_U32 && a != TYPE_S32) || (b != TYPE_U32 && b != TYPE_S32)) return false;
    decoding->instruction->variant = (a == TYPE_S32) | (b == TYPE_S32) << 1;
    return finish(decoding, "dp4a", TYPE_B32);
}

bool decode_arithmetic(struct decoding *decoding, const char *name) {
    if (strcmp(name, "mul") == 0 || strcmp(name, "mad") == 0) return decode_product(decoding, name);
    if (strcmp(name, "dp4a") == 0) return decode_dot(decoding);
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++) {
        if (strcmp(RULES[i].name, name) != 0) continue;
        enum type type = take_type(decoding);
        if (type == TYPE_PRED) return false; /* and, or, xor and not on predicates are others */
        char key[64];
        strcpy(key, RULES[i].looked_up);
        decoding->instruction->type = type;
        if (RULES[i].variants != NULL) {
            int variant = take_one_of(decoding, RULES[i].variants);
            if (variant < 0) return false;
            append(key, strcmp(name, "bmsk") == 0  ? (variant ? "wrap" : "clamp")
                        : strcmp(name, "shf") == 0 ? (variant ? "r" : "l")
                                                   : (variant ? "hi" : "lo"));
        }
        take_special_words(decoding, name, key);
        take_allowed(decoding, RULES[i].allowed, type, key);
        return finish(decoding, key, type);
    }
    return false;
}
