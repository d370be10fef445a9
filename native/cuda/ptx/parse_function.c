/* A function's text: its parameters, and the blocks of its body. */
#include <stdlib.h>
#include <string.h>

#include "parser.h"

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
        struct slot slot = {align_to(*used, declaration.alignment), (uint32_t)declaration.bytes};
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
    function->is_defined = true;
    if (!function->is_kernel) parser->module->register_sum += function->register_count;
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
