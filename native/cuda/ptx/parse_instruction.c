/* Instructions with labels in them: branches and calls. */
#include <string.h>

#include "parser.h"

struct instruction *add_instruction(struct parser *parser) {
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

void read_branch_targets(struct parser *parser, const struct token *label) {
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

void read_instruction(struct parser *parser) {
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

/* Finds a label in the innermost block around its use. */
void resolve_labels(struct parser *parser) {
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
