/* A function's text: its parameters, registers, variables, labels and instructions. */
#include <stdlib.h>
#include <string.h>

#include "parser.h"

static void add_name(struct parser *parser, struct name name) {
    if (parser->name_count == parser->name_room) {
        size_t room = parser->name_room == 0 ? 64 : 2 * parser->name_room;
        struct name *moved = realloc(parser->names, room * sizeof *moved);
        if (moved == NULL) parse_fail(parser, "there is no memory left");
        parser->names = moved;
        parser->name_room = room;
    }
    parser->names[parser->name_count++] = name;
}

static uint32_t align(uint32_t offset, uint32_t alignment) { return (offset + alignment - 1) & ~(alignment - 1); }

/* Reads parameters in parentheses: of a kernel they lie among its arguments, of others in their frame. */
static struct slot *read_parameters(struct parser *parser, uint32_t *count) {
    enum { MOST = 4096 };
    struct ptx_function *function = parser->function;
    struct slot *slots = NULL;
    uint32_t room = 0;
    *count = 0;
    if (accept_mark(parser, ')')) return NULL;
    do {
        if (!accept_word(parser, ".param")) parse_fail(parser, "parameters other than .param are not supported");
        struct declaration declaration = read_declaration(parser);
        if (!declaration.is_sized || *count == MOST) parse_fail(parser, "this parameter is not supported");
        uint32_t *used = function->is_kernel ? &function->argument_bytes : &parser->frame_used;
        struct slot slot = {align(*used, declaration.alignment), (uint32_t)declaration.bytes};
        if (slot.bytes > MOST_BYTES - slot.offset) parse_fail(parser, "parameters are too large");
        *used = slot.offset + slot.bytes;
        if (*count == room) {
            struct slot *more = arena_take(parser->arena, room == 0 ? 8 : 2 * room, sizeof *more);
            if (room > 0) memcpy(more, slots, room * sizeof *more);
            room = room == 0 ? 8 : 2 * room;
            slots = more;
        }
        slots[(*count)++] = slot;
        add_name(parser, (struct name){.text = declaration.text,
                                       .length = declaration.length,
                                       .kind = function->is_kernel ? NAME_ARGUMENT : NAME_FRAME,
                                       .base = slot.offset,
                                       .count = slot.bytes});
    } while (accept_mark(parser, ','));
    expect_mark(parser, ')');
    return slots;
}

/* What stands between the parameters and the body. */
static void read_directives(struct parser *parser) {
    for (;;) {
        struct token word = parser->tokens.now;
        if (word.kind != TOKEN_WORD) return;
        tokens_advance(&parser->tokens);
        bool limits = token_is(&word, ".maxntid") || token_is(&word, ".reqntid");
        if (token_is(&word, ".pragma")) {
            tokens_advance(&parser->tokens);
            expect_mark(parser, ';');
            continue;
        }
        uint64_t product = 1;
        while (parser->tokens.now.kind == TOKEN_INTEGER) {
            product *= expect_integer(parser);
            accept_mark(parser, ',');
        }
        if (limits && product <= 1024) parser->function->max_threads = (unsigned int)product;
    }
}

static void read_registers(struct parser *parser) {
    struct token word = expect_word(parser);
    enum type type;
    if (word.text[0] != '.' || !read_type(word.text + 1, word.length - 1, &type))
        parse_fail(parser, "registers need a type");
    do {
        struct token name = expect_word(parser);
        struct name made = {.text = name.text,
                            .length = name.length,
                            .kind = NAME_REGISTERS,
                            .type = type,
                            .base = parser->function->register_count,
                            .count = 1};
        if (accept_mark(parser, '<')) {
            uint64_t count = expect_integer(parser);
            expect_mark(parser, '>');
            if (count > MOST_REGISTERS) parse_fail(parser, "there are too many registers");
            made.is_family = true;
            made.count = (uint32_t)count;
        }
        if (type == TYPE_B128 || made.count > MOST_REGISTERS - parser->function->register_count)
            parse_fail(parser, "these registers are not supported");
        parser->function->register_count += made.count;
        add_name(parser, made);
    } while (accept_mark(parser, ','));
    expect_mark(parser, ';');
}

static void read_frame_variable(struct parser *parser) {
    struct declaration declaration = read_declaration(parser);
    uint32_t offset = align(parser->frame_used, declaration.alignment < 8 ? 8 : declaration.alignment);
    if (!declaration.is_sized || declaration.bytes > MOST_BYTES - offset)
        parse_fail(parser, "this variable is not supported");
    add_name(parser, (struct name){.text = declaration.text,
                                   .length = declaration.length,
                                   .kind = NAME_FRAME,
                                   .base = offset,
                                   .count = (uint32_t)declaration.bytes});
    parser->frame_used = offset + (uint32_t)declaration.bytes;
    if (parser->frame_used > parser->function->frame_bytes) parser->function->frame_bytes = parser->frame_used;
    expect_mark(parser, ';');
}

/* Each shared variable of a module has a place of its own, whichever function it belongs to. */
static void read_shared_variable(struct parser *parser) {
    struct declaration declaration = read_declaration(parser);
    struct ptx_module *module = parser->module;
    uint32_t offset = align(module->shared_bytes, declaration.alignment);
    if (!declaration.is_sized || declaration.bytes > MOST_BYTES - offset)
        parse_fail(parser, "this shared variable is not supported");
    add_name(parser, (struct name){.text = declaration.text,
                                   .length = declaration.length,
                                   .kind = NAME_SHARED,
                                   .base = offset,
                                   .count = (uint32_t)declaration.bytes});
    module->shared_bytes = offset + (uint32_t)declaration.bytes;
    expect_mark(parser, ';');
}

static struct instruction *add_instruction(struct parser *parser) {
    struct ptx_function *function = parser->function;
    if (function->length == parser->code_room) {
        size_t room = parser->code_room == 0 ? 64 : 2 * parser->code_room;
        struct instruction *moved = arena_take(parser->arena, room, sizeof *moved);
        if (function->length > 0) memcpy(moved, function->code, function->length * sizeof *moved);
        function->code = moved;
        parser->code_room = room;
    }
    struct instruction *made = &function->code[function->length++];
    *made = (struct instruction){.guard = -1, .to = -1, .to_predicate = -1, .line = parser->tokens.now.line};
    return made;
}

static void use_label(struct parser *parser, const struct operand *operand, uint32_t *place) {
    if (operand->kind != OPERAND_NAME) parse_fail(parser, "a label is expected");
    struct label_use *use = arena_take(parser->arena, 1, sizeof *use);
    *use = (struct label_use){
        parser->label_uses,          operand->text, operand->length, parser->scope, parser->tokens.now.line, place,
        parser->function->length - 1};
    parser->label_uses = use;
}

static void read_branch_targets(struct parser *parser, const struct token *label) {
    unsigned int count;
    struct operand *operands = parse_operands(parser, &count);
    struct branch_targets *made = arena_take(parser->arena, 1, sizeof *made);
    *made = (struct branch_targets){parser->branch_targets, label->text, label->length,
                                    arena_take(parser->arena, count, sizeof(uint32_t)), count};
    parser->branch_targets = made;
    for (unsigned int i = 0; i < count; i++) use_label(parser, &operands[i], &made->targets[i]);
    expect_mark(parser, ';');
}

static void decode_branch(struct parser *parser, struct instruction *instruction, const struct operand *operands,
                          unsigned int count) {
    if (instruction->control == CONTROL_BRANCH) {
        if (count != 1) parse_fail(parser, "a branch has one target");
        use_label(parser, &operands[0], NULL);
        return;
    }
    if (count != 2 || operands[1].kind != OPERAND_NAME)
        parse_fail(parser, "brx.idx has an index and a list of targets");
    instruction->from[0] = operand_source(parser, &operands[0], TYPE_U32);
    for (struct branch_targets *each = parser->branch_targets; each != NULL; each = each->next) {
        if (each->length != operands[1].length || memcmp(each->text, operands[1].text, each->length) != 0) continue;
        instruction->targets = each->targets;
        instruction->target_count = each->count;
        return;
    }
    parse_fail(parser, "the targets of brx.idx are not declared");
}

static struct slot *call_slots(struct parser *parser, const struct operand *list, uint32_t *count) {
    struct slot *slots = arena_take(parser->arena, list->element_count, sizeof *slots);
    for (unsigned int i = 0; i < list->element_count; i++) {
        const struct name *name = list->elements[i].kind == OPERAND_NAME
                                      ? find_name(parser, list->elements[i].text, list->elements[i].length)
                                      : NULL;
        if (name == NULL || name->kind != NAME_FRAME)
            parse_fail(parser, "arguments of calls other than .param are not supported");
        slots[i] = (struct slot){name->base, name->count};
    }
    *count = list->element_count;
    return slots;
}

/* call (result), function, (arguments), prototype; */
static void decode_call(struct parser *parser, struct instruction *instruction, const struct operand *operands,
                        unsigned int count) {
    struct call *call = arena_take(parser->arena, 1, sizeof *call);
    unsigned int at = 0;
    if (at < count && operands[at].kind == OPERAND_LIST)
        call->results = call_slots(parser, &operands[at++], &call->result_count);
    if (at == count) parse_fail(parser, "a call names a function");
    const struct operand *callee = &operands[at++];
    if (at < count && operands[at].kind == OPERAND_LIST)
        call->arguments = call_slots(parser, &operands[at++], &call->argument_count);
    if (callee->kind == OPERAND_NAME) {
        call->function = module_function(parser->module, arena_text(parser->arena, callee->text, callee->length));
        if (call->function == NULL)
            parse_fail(parser, "function '%.*s' is not declared", (int)(callee->length < 60 ? callee->length : 60),
                       callee->text);
    } else {
        instruction->from[0] = operand_source(parser, callee, TYPE_U64);
    }
    instruction->call = call;
}

static void read_instruction(struct parser *parser) {
    struct instruction *instruction = add_instruction(parser);
    if (accept_mark(parser, '@')) {
        instruction->guard_negated = accept_mark(parser, '!');
        struct operand guard = parse_operand(parser);
        if (guard.kind != OPERAND_SOURCE || guard.source.kind != SOURCE_REGISTER)
            parse_fail(parser, "a predicate is expected behind '@'");
        instruction->guard = (int32_t)guard.source.index;
    }
    struct token word = expect_word(parser);
    if (word.length > 100) parse_fail(parser, "an instruction's name is too long");
    unsigned int count;
    struct operand *operands = parse_operands(parser, &count);
    expect_mark(parser, ';');
    instruction->name = arena_text(parser->arena, word.text, word.length);
    decode(parser, instruction, instruction->name, operands, count);
    if (instruction->control == CONTROL_BRANCH || instruction->control == CONTROL_BRANCH_INDEXED)
        decode_branch(parser, instruction, operands, count);
    if (instruction->control == CONTROL_CALL) decode_call(parser, instruction, operands, count);
}

static void enter_scope(struct parser *parser) {
    if (parser->scope_count == parser->scope_room) {
        uint32_t room = parser->scope_room == 0 ? 16 : 2 * parser->scope_room;
        uint32_t *moved = realloc(parser->scope_parents, room * sizeof *moved);
        if (moved == NULL) parse_fail(parser, "there is no memory left");
        parser->scope_parents = moved;
        parser->scope_room = room;
    }
    parser->scope_parents[parser->scope_count] = parser->scope;
    parser->scope = parser->scope_count++;
}

static void skip_to_semicolon(struct parser *parser) {
    while (!accept_mark(parser, ';')) {
        if (parser->tokens.now.kind == TOKEN_END) parse_fail(parser, "';' is missing");
        tokens_advance(&parser->tokens);
    }
}

/* Where a source line comes from, on one line of its own and without an end mark. */
static void skip_location(struct parser *parser) {
    uint32_t line = parser->tokens.now.line;
    while (parser->tokens.now.kind != TOKEN_END && parser->tokens.now.line == line) tokens_advance(&parser->tokens);
}

static void read_statement(struct parser *parser, unsigned int depth);

static void read_block(struct parser *parser, unsigned int depth) {
    if (depth > 64) parse_fail(parser, "blocks are nested too deep");
    size_t names = parser->name_count;
    uint32_t frame = parser->frame_used, outer = parser->scope;
    enter_scope(parser);
    while (!accept_mark(parser, '}')) {
        if (parser->tokens.now.kind == TOKEN_END) parse_fail(parser, "'}' is missing");
        read_statement(parser, depth);
    }
    parser->name_count = names;
    parser->frame_used = frame;
    parser->scope = outer;
}

static void read_statement(struct parser *parser, unsigned int depth) {
    if (accept_mark(parser, '{')) read_block(parser, depth + 1);
    else if (accept_mark(parser, ';')) return;
    else if (accept_word(parser, ".reg")) read_registers(parser);
    else if (accept_word(parser, ".local") || accept_word(parser, ".param")) read_frame_variable(parser);
    else if (accept_word(parser, ".shared")) read_shared_variable(parser);
    else if (accept_word(parser, ".loc")) skip_location(parser);
    else if (accept_word(parser, ".pragma")) skip_to_semicolon(parser);
    else if (parser->tokens.now.kind == TOKEN_WORD && parser->tokens.now.text[0] == '.')
        parse_fail(parser, "'%.*s' is not understood", (int)parser->tokens.now.length % 60, parser->tokens.now.text);
    else {
        struct tokens before = parser->tokens;
        struct token word = parser->tokens.now;
        if (word.kind == TOKEN_WORD) tokens_advance(&parser->tokens);
        if (word.kind != TOKEN_WORD || !accept_mark(parser, ':')) {
            parser->tokens = before;
            read_instruction(parser);
        } else if (accept_word(parser, ".branchtargets")) {
            read_branch_targets(parser, &word);
        } else if (accept_word(parser, ".callprototype")) {
            skip_to_semicolon(parser);
        } else {
            struct label *label = arena_take(parser->arena, 1, sizeof *label);
            *label = (struct label){parser->labels, word.text, word.length, parser->scope, parser->function->length};
            parser->labels = label;
        }
    }
}

/* Finds a label in the innermost block around its use. */
static void resolve_labels(struct parser *parser) {
    for (struct label_use *use = parser->label_uses; use != NULL; use = use->next) {
        const struct label *found = NULL;
        for (uint32_t scope = use->scope; found == NULL; scope = parser->scope_parents[scope]) {
            for (const struct label *each = parser->labels; each != NULL && found == NULL; each = each->next)
                if (each->scope == scope && each->length == use->length &&
                    memcmp(each->text, use->text, use->length) == 0)
                    found = each;
            if (scope == 0) break;
        }
        if (found == NULL)
            parse_fail(parser, "label '%.*s' (line %u) is not there", (int)(use->length < 60 ? use->length : 60),
                       use->text, use->line);
        if (use->place != NULL) *use->place = found->place;
        else parser->function->code[use->instruction].target = found->place;
    }
}

static void finish_body(struct parser *parser) {
    struct ptx_function *function = parser->function;
    struct instruction *end = add_instruction(parser); /* whoever runs past the end returns */
    end->control = CONTROL_RETURN;
    end->name = "ret";
    resolve_labels(parser);
    function->constants = arena_take(parser->arena, function->constant_count, sizeof *function->constants);
    for (uint32_t i = 0; i < function->constant_count; i++)
        for (unsigned int lane = 0; lane < LANES; lane++) function->constants[i][lane] = parser->constants[i];
    if (parser->frame_used > function->frame_bytes) function->frame_bytes = parser->frame_used;
    function->frame_bytes = align(function->frame_bytes, 16);
    function->is_defined = true;
    if (function->is_kernel) return;
    parser->module->frame_sum += function->frame_bytes;
    parser->module->register_sum += function->register_count;
}

static enum builtin find_builtin(const char *name) {
    static const struct {
        const char *name;
        enum builtin builtin;
    } known[] = {{"vprintf", BUILTIN_PRINTF},
                 {"__assertfail", BUILTIN_ASSERT},
                 {"malloc", BUILTIN_MALLOC},
                 {"free", BUILTIN_FREE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].builtin;
    return BUILTIN_NONE;
}

static void begin_function(struct parser *parser, bool is_kernel) {
    parser->function = arena_take(parser->arena, 1, sizeof *parser->function);
    parser->function->is_kernel = is_kernel;
    parser->name_count = 0;
    parser->scope = parser->scope_count = 0;
    parser->labels = NULL;
    parser->label_uses = NULL;
    parser->branch_targets = NULL;
    parser->frame_used = 0;
    parser->code_room = 0;
    enter_scope(parser);
}

/* A function that was declared before keeps its place, which calls point to. */
static struct ptx_function *declare(struct parser *parser, const char *name) {
    struct ptx_function *known = module_function(parser->module, name), *made = parser->function;
    if (known != NULL && known->is_kernel != made->is_kernel) parse_fail(parser, "'%s' was declared otherwise", name);
    if (known != NULL) return known;
    struct ptx_function **end = &parser->module->functions;
    while (*end != NULL) end = &(*end)->next;
    *end = arena_take(parser->arena, 1, sizeof **end);
    (*end)->name = name;
    (*end)->is_kernel = made->is_kernel;
    return *end;
}

void parse_function(struct parser *parser, bool is_kernel) {
    begin_function(parser, is_kernel);
    struct ptx_function *function = parser->function;
    if (accept_mark(parser, '(')) function->results = read_parameters(parser, &function->result_count);
    struct token name = expect_word(parser);
    function->name = arena_text(parser->arena, name.text, name.length);
    function->builtin = is_kernel ? BUILTIN_NONE : find_builtin(function->name);
    if (accept_mark(parser, '(')) function->parameters = read_parameters(parser, &function->parameter_count);
    read_directives(parser);
    struct ptx_function *place = declare(parser, function->name);
    bool has_body = accept_mark(parser, '{');
    if (has_body && place->is_defined) parse_fail(parser, "'%s' is defined twice", function->name);
    if (has_body) {
        while (!accept_mark(parser, '}')) {
            if (parser->tokens.now.kind == TOKEN_END) parse_fail(parser, "'}' is missing");
            read_statement(parser, 0);
        }
        finish_body(parser);
    } else {
        expect_mark(parser, ';');
    }
    if (place->is_defined) return;
    struct ptx_function *next = place->next;
    *place = *function;
    place->next = next;
}
