#include "tokens.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_BYTES 64

static bool begins_word(char byte) {
    return isalpha((unsigned char)byte) || (byte != '\0' && strchr("_$%.", byte) != NULL);
}

static bool continues_word(char byte) {
    return isalnum((unsigned char)byte) || (byte != '\0' && strchr("_$.", byte) != NULL);
}

static void skip_space(struct tokens *tokens) {
    while (tokens->next < tokens->end) {
        const char *at = tokens->next;
        size_t left = (size_t)(tokens->end - at);
        if (*at == '\n') tokens->line++;
        if (isspace((unsigned char)*at)) {
            tokens->next++;
        } else if (left >= 2 && at[0] == '/' && at[1] == '/') {
            while (tokens->next < tokens->end && *tokens->next != '\n') tokens->next++;
        } else if (left >= 2 && at[0] == '/' && at[1] == '*') {
            for (tokens->next += 2; tokens->next < tokens->end; tokens->next++) {
                if (*tokens->next == '\n') tokens->line++;
                if (tokens->end - tokens->next >= 2 && tokens->next[0] == '*' && tokens->next[1] == '/') break;
            }
            tokens->next = tokens->end - tokens->next >= 2 ? tokens->next + 2 : tokens->end;
        } else {
            return;
        }
    }
}

/* Two colons belong to a word, as in .shared::cta; one ends a label. */
static void read_word(struct tokens *tokens) {
    const char *at = tokens->next + 1;
    while (at < tokens->end) {
        if (continues_word(*at)) at++;
        else if (tokens->end - at >= 3 && at[0] == ':' && at[1] == ':' && continues_word(at[2])) at += 2;
        else break;
    }
    tokens->now.kind = TOKEN_WORD;
    tokens->now.length = (size_t)(at - tokens->next);
    tokens->next = at;
}

/* 0f3F800000 and 0d3FF0000000000000 are bits of a float, the former kept as f64. */
static void read_float_bits(struct token *token, const char *digits, bool is_double) {
    uint64_t bits = strtoull(digits, NULL, 16);
    if (!is_double) {
        uint32_t single_bits = (uint32_t)bits;
        float single;
        memcpy(&single, &single_bits, sizeof single);
        double value = single;
        memcpy(&bits, &value, sizeof bits);
        /* The conversion would quieten a NaN, and drop nothing else. */
        if (single != single)
            bits =
                (uint64_t)(single_bits >> 31) << 63 | UINT64_C(0x7ff) << 52 | (uint64_t)(single_bits & 0x7fffff) << 29;
    }
    token->kind = TOKEN_FLOAT;
    token->integer = bits;
}

static void read_number(struct tokens *tokens) {
    char text[NUMBER_BYTES];
    size_t length = 0;
    const char *at = tokens->next;
    bool hexadecimal = tokens->end - at >= 2 && at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
    for (; at < tokens->end && length < NUMBER_BYTES - 1; at++) {
        bool sign_of_exponent = !hexadecimal && length > 0 && (*at == '+' || *at == '-') &&
                                (text[length - 1] == 'e' || text[length - 1] == 'E') &&
                                !(length > 1 && (text[1] == 'f' || text[1] == 'F' || text[1] == 'd' || text[1] == 'D'));
        if (!isalnum((unsigned char)*at) && *at != '.' && !sign_of_exponent) break;
        text[length++] = *at;
    }
    text[length] = '\0';
    tokens->now.length = (size_t)(at - tokens->next);
    tokens->next = at;
    tokens->now.kind = TOKEN_INTEGER;
    if (length > 2 && text[0] == '0' && strchr("fFdD", text[1]) != NULL) {
        read_float_bits(&tokens->now, text + 2, text[1] == 'd' || text[1] == 'D');
    } else if (length > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
        tokens->now.integer = strtoull(text + 2, NULL, 2);
    } else if (!hexadecimal && strpbrk(text, ".eE") != NULL) {
        double value = strtod(text, NULL);
        tokens->now.kind = TOKEN_FLOAT;
        memcpy(&tokens->now.integer, &value, sizeof value);
    } else {
        tokens->now.integer = strtoull(text, NULL, 0);
    }
}

static void read_string(struct tokens *tokens) {
    const char *at = tokens->next + 1;
    while (at < tokens->end && *at != '"') at += *at == '\\' && tokens->end - at > 1 ? 2 : 1;
    tokens->now.kind = TOKEN_STRING;
    tokens->now.text = tokens->next + 1;
    tokens->now.length = (size_t)(at - tokens->next - 1);
    tokens->next = at < tokens->end ? at + 1 : at;
}

void tokens_advance(struct tokens *tokens) {
    skip_space(tokens);
    tokens->now = (struct token){.kind = TOKEN_END, .text = tokens->next, .line = tokens->line};
    if (tokens->next >= tokens->end || *tokens->next == '\0') return;
    if (begins_word(*tokens->next)) {
        read_word(tokens);
    } else if (isdigit((unsigned char)*tokens->next)) {
        read_number(tokens);
    } else if (*tokens->next == '"') {
        read_string(tokens);
    } else {
        tokens->now.kind = TOKEN_MARK;
        tokens->now.mark = *tokens->next++;
        tokens->now.length = 1;
    }
}

void tokens_begin(struct tokens *tokens, const char *text, size_t bytes) {
    *tokens = (struct tokens){.next = text, .end = text + bytes, .line = 1};
    tokens_advance(tokens);
}

bool token_is(const struct token *token, const char *text) {
    return token->kind == TOKEN_WORD && token->length == strlen(text) && memcmp(token->text, text, token->length) == 0;
}

bool token_is_mark(const struct token *token, char mark) { return token->kind == TOKEN_MARK && token->mark == mark; }
