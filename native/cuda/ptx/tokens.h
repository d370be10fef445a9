/* The words of a PTX text. */
#ifndef GPUYARD_PTX_TOKENS_H
#define GPUYARD_PTX_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_INTEGER, TOKEN_FLOAT, TOKEN_STRING, TOKEN_MARK };

/* A word may have dots in it, as instructions, directives and special registers do. */
struct token {
    enum token_kind kind;
    const char *text;
    size_t length;
    uint32_t line;
    uint64_t integer; /* of a float its bits, as f64 */
    char mark;
};

struct tokens {
    const char *next, *end;
    uint32_t line;
    struct token now; /* the one that is looked at */
};

void tokens_begin(struct tokens *tokens, const char *text, size_t bytes);
void tokens_advance(struct tokens *tokens);
bool token_is(const struct token *token, const char *text);
bool token_is_mark(const struct token *token, char mark);

#endif
