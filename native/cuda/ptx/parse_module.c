/* A module's text: its variables and functions. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parser.h"

void parse_fail(struct parser *parser, const char *format, ...) {
    int used = snprintf(parser->message, PTX_MESSAGE_BYTES, "PTX line %u: ", parser->tokens.now.line);
    va_list values;
    va_start(values, format);
    vsnprintf(parser->message + used, PTX_MESSAGE_BYTES - (size_t)used, format, values);
    va_end(values);
    longjmp(parser->failed, 1);
}

bool accept_mark(struct parser *parser, char mark) {
    if (!token_is_mark(&parser->tokens.now, mark)) return false;
    tokens_advance(&parser->tokens);
    return true;
}

void expect_mark(struct parser *parser, char mark) {
    if (accept_mark(parser, mark)) return;
    int length = (int)(parser->tokens.now.length < 40 ? parser->tokens.now.length : 40);
    parse_fail(parser, "'%c' is expected before '%.*s'", mark, length, parser->tokens.now.text);
}

/* Directives may stand together without a space, as in `.reg.b16`: then what is left is the next word. */
bool accept_word(struct parser *parser, const char *word) {
    struct token *now = &parser->tokens.now;
    size_t length = strlen(word);
    if (token_is(now, word)) {
        tokens_advance(&parser->tokens);
        return true;
    }
    bool begins = now->kind == TOKEN_WORD && now->length > length + 1 && memcmp(now->text, word, length) == 0;
    if (!begins || now->text[length] != '.') return false;
    now->text += length;
    now->length -= length;
    return true;
}

struct token expect_word(struct parser *parser) {
    struct token word = parser->tokens.now;
    if (word.kind != TOKEN_WORD) parse_fail(parser, "a name is expected");
    tokens_advance(&parser->tokens);
    return word;
}

uint64_t expect_integer(struct parser *parser) {
    struct token number = parser->tokens.now;
    if (number.kind != TOKEN_INTEGER) parse_fail(parser, "a whole number is expected");
    tokens_advance(&parser->tokens);
    return number.integer;
}

static bool is_word_of(const struct token *token, const char *const *words) {
    for (; *words != NULL; words++)
        if (token_is(token, *words)) return true;
    return false;
}

struct declaration read_declaration(struct parser *parser) {
    struct declaration made = {.alignment = 0};
    unsigned int elements = 1;
    for (;;) {
        struct token word = expect_word(parser);
        enum type type;
        if (token_is(&word, ".align")) made.alignment = (uint32_t)expect_integer(parser);
        else if (token_is(&word, ".v2") || token_is(&word, ".v4")) elements = token_is(&word, ".v2") ? 2 : 4;
        else if (word.text[0] == '.' && read_type(word.text + 1, word.length - 1, &type)) made.type = type;
        else if (is_word_of(&word, (const char *const[]){".ptr", ".global", ".const", ".shared", ".local", ".generic",
                                                         ".param", NULL}))
            continue;
        else if (word.text[0] == '.') parse_fail(parser, "'%.*s' is not understood here", (int)word.length, word.text);
        else {
            made.text = word.text;
            made.length = word.length;
            break;
        }
    }
    if (made.type == TYPE_NONE) parse_fail(parser, "'%.*s' has no type", (int)made.length, made.text);
    made.bytes = (uint64_t)type_bytes(made.type) * elements;
    if (made.alignment == 0) made.alignment = (uint32_t)made.bytes;
    if (made.alignment == 0 || (made.alignment & (made.alignment - 1)) != 0 || made.alignment > 4096)
        parse_fail(parser, "the alignment is wrong");
    made.is_sized = true;
    while (accept_mark(parser, '[')) {
        uint64_t count = parser->tokens.now.kind == TOKEN_INTEGER ? expect_integer(parser) : 0;
        expect_mark(parser, ']');
        made.is_sized = made.is_sized && count > 0;
        if (count > MOST_BYTES / (made.bytes == 0 ? 1 : made.bytes))
            parse_fail(parser, "'%.*s' is too large", (int)made.length, made.text);
        made.bytes *= count;
    }
    return made;
}

/* Reads one element of a first value: a number, a name, generic(name), or either with something added. */
static void read_element(struct parser *parser, struct variable *variable, const struct declaration *declaration,
                         uint64_t offset) {
    size_t bytes = type_bytes(declaration->type);
    if (offset + bytes > variable->seen.bytes)
        parse_fail(parser, "'%s' has more values than room", variable->seen.name);
    bool negative = accept_mark(parser, '-');
    struct token token = parser->tokens.now;
    tokens_advance(&parser->tokens);
    if (token.kind == TOKEN_INTEGER || token.kind == TOKEN_FLOAT) {
        uint64_t value = negative ? -token.integer : token.integer;
        if (token.kind == TOKEN_FLOAT) {
            double number;
            memcpy(&number, &token.integer, sizeof number);
            if (negative) number = -number;
            float single = (float)number;
            if (bytes == 4) memcpy(&value, &single, sizeof single);
            else memcpy(&value, &number, sizeof number);
        }
        memcpy(variable->initial + offset, &value, bytes);
        return;
    }
    if (token.kind != TOKEN_WORD) parse_fail(parser, "a value is expected");
    bool generic = token_is(&token, "generic") && accept_mark(parser, '(');
    if (generic) token = expect_word(parser);
    if (generic) expect_mark(parser, ')');
    struct initial_symbol *symbol = arena_take(parser->arena, 1, sizeof *symbol);
    symbol->offset = offset;
    symbol->bytes = bytes;
    symbol->name = arena_text(parser->arena, token.text, token.length);
    if (accept_mark(parser, '+')) symbol->addend = (int64_t)expect_integer(parser);
    symbol->next = variable->symbols;
    variable->symbols = symbol;
}

static uint64_t read_elements(struct parser *parser, struct variable *variable, const struct declaration *declaration,
                              uint64_t offset, unsigned int depth) {
    if (depth > 8) parse_fail(parser, "values are nested too deep");
    if (!accept_mark(parser, '{')) {
        read_element(parser, variable, declaration, offset);
        return offset + type_bytes(declaration->type);
    }
    do offset = read_elements(parser, variable, declaration, offset, depth + 1);
    while (accept_mark(parser, ','));
    expect_mark(parser, '}');
    return offset;
}

static void parse_variable(struct parser *parser, bool is_extern, bool is_constant) {
    struct declaration declaration = read_declaration(parser);
    char *name = arena_text(parser->arena, declaration.text, declaration.length);
    struct variable *variable = module_variable(parser->module, name);
    if (variable != NULL && !variable->is_extern && !is_extern) parse_fail(parser, "'%s' is defined twice", name);
    if (variable == NULL) {
        variable = arena_take(parser->arena, 1, sizeof *variable);
        variable->next = parser->module->variables;
        parser->module->variables = variable;
        variable->is_extern = true;
    }
    if (!is_extern) {
        variable->is_extern = false;
        variable->seen = (struct ptx_variable){
            .name = name, .bytes = declaration.bytes, .alignment = declaration.alignment, .is_constant = is_constant};
        if (accept_mark(parser, '=')) {
            variable->initial = arena_take(parser->arena, declaration.bytes + 8, 1);
            read_elements(parser, variable, &declaration, 0, 0);
        }
    } else if (variable->seen.name == NULL) {
        variable->seen.name = name;
    }
    expect_mark(parser, ';');
}

static void parse_shared(struct parser *parser) {
    struct declaration declaration = read_declaration(parser);
    struct shared_variable *variable = arena_take(parser->arena, 1, sizeof *variable);
    variable->name = arena_text(parser->arena, declaration.text, declaration.length);
    variable->is_dynamic = !declaration.is_sized;
    uint32_t start = (parser->module->shared_bytes + declaration.alignment - 1) & ~(declaration.alignment - 1);
    if (declaration.is_sized) {
        variable->offset = start;
        if (declaration.bytes > MOST_BYTES - start) parse_fail(parser, "shared memory is too large");
        parser->module->shared_bytes = start + (uint32_t)declaration.bytes;
    }
    variable->next = parser->module->shared;
    parser->module->shared = variable;
    expect_mark(parser, ';');
}

/* Debug information in sections of its own, which says nothing about what is computed. */
static void skip_section(struct parser *parser) {
    while (parser->tokens.now.kind != TOKEN_END && !token_is_mark(&parser->tokens.now, '{'))
        tokens_advance(&parser->tokens);
    for (unsigned int depth = 0; parser->tokens.now.kind != TOKEN_END;) {
        if (token_is_mark(&parser->tokens.now, '{')) depth++;
        bool closes = token_is_mark(&parser->tokens.now, '}') && --depth == 0;
        tokens_advance(&parser->tokens);
        if (closes) return;
    }
}

static void skip_line(struct parser *parser) {
    uint32_t line = parser->tokens.now.line;
    while (parser->tokens.now.kind != TOKEN_END && parser->tokens.now.line == line) tokens_advance(&parser->tokens);
}

static void skip_statement(struct parser *parser) {
    while (parser->tokens.now.kind != TOKEN_END && !accept_mark(parser, ';')) tokens_advance(&parser->tokens);
}

static void parse_item(struct parser *parser) {
    bool is_extern = false;
    for (;;) {
        static const char *const linkage[] = {".visible", ".weak", ".common", ".managed", NULL};
        if (accept_word(parser, ".extern")) is_extern = true;
        else if (is_word_of(&parser->tokens.now, linkage)) tokens_advance(&parser->tokens);
        else break;
    }
    struct token word = expect_word(parser);
    if (token_is(&word, ".entry")) parse_function(parser, true);
    else if (token_is(&word, ".func")) parse_function(parser, false);
    else if (token_is(&word, ".global")) parse_variable(parser, is_extern, false);
    else if (token_is(&word, ".const")) parse_variable(parser, is_extern, true);
    else if (token_is(&word, ".shared")) parse_shared(parser);
    else if (token_is(&word, ".section")) skip_section(parser);
    else if (is_word_of(&word, (const char *const[]){".version", ".target", ".address_size", ".file", NULL}))
        skip_line(parser);
    else if (is_word_of(&word, (const char *const[]){".pragma", ".alias", NULL})) skip_statement(parser);
    else parse_fail(parser, "'%.*s' is not understood", (int)(word.length < 60 ? word.length : 60), word.text);
}

bool ptx_add(struct ptx_module *module, const char *text, size_t bytes, char message[PTX_MESSAGE_BYTES]) {
    struct parser *parser = calloc(1, sizeof *parser); /* not on the stack: it must survive the jump */
    if (parser == NULL) return false;
    parser->module = module;
    parser->arena = module->arena;
    parser->message = message;
    bool read = setjmp(parser->failed) == 0;
    if (read) {
        tokens_begin(&parser->tokens, arena_text(module->arena, text, bytes), bytes); /* names point into it */
        if (!token_is(&parser->tokens.now, ".version")) parse_fail(parser, "a module begins with .version");
        while (parser->tokens.now.kind != TOKEN_END) parse_item(parser);
    }
    free(parser->names);
    free(parser->scope_parents);
    free(parser->constants);
    free(parser);
    return read;
}
