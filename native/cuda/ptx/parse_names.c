/* Names that a function's text introduces: registers and variables. */
#include <stdlib.h>
#include <string.h>

#include "parser.h"

void add_name(struct parser *parser, struct name name) {
    if (parser->name_count == parser->name_room) {
        size_t room = parser->name_room == 0 ? 64 : 2 * parser->name_room;
        struct name *moved = realloc(parser->names, room * sizeof *moved);
        if (moved == NULL) parse_fail(parser, "there is no memory left");
        parser->names = moved;
        parser->name_room = room;
    }
    parser->names[parser->name_count++] = name;
}

void read_registers(struct parser *parser) {
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

void read_frame_variable(struct parser *parser) {
    struct declaration declaration = read_declaration(parser);
    uint32_t offset = align_to(parser->frame_used, declaration.alignment < 8 ? 8 : declaration.alignment);
    if (!declaration.is_sized || declaration.bytes > MOST_BYTES - offset)
        parse_fail(parser, "this variable is not supported");
    if (declaration.alignment > parser->module->frame_alignment)
        parser->module->frame_alignment = declaration.alignment;
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
void read_shared_variable(struct parser *parser) {
    struct declaration declaration = read_declaration(parser);
    struct ptx_module *module = parser->module;
    uint32_t offset = align_to(module->shared_bytes, declaration.alignment);
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
