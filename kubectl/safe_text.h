/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

#include "base/sb.h"

/*
 * Foreign text for a terminal: names, models and messages of objects, which others wrote. Pure.
 *
 * Characters that a terminal would obey never reach it. U+FFFD replaces each control character (C0,
 * DEL, C1), each mark that turns the direction of writing (U+061C, U+200E, U+200F, U+202A to
 * U+202E, U+2066 to U+2069) or ends a line or paragraph (U+2028, U+2029), and each byte that is not
 * UTF-8. In a document for programs, where nothing may get lost, escapes replace them.
 */

/* Appends at most max bytes of the text (NULL: nothing), never cutting a character. */
void safe_text_add(struct sb *b, const char *text, size_t max);
/* The same in full, in a text of its own. Caller frees. */
char *safe_text(const char *text);
/* Appends JSON or YAML, or a part of it that cuts no character, with such characters as the escapes
 * that both have in quoted strings (\u202E), where alone they can be; but for line breaks. */
void safe_text_add_document(struct sb *b, const char *text, size_t len);
/* Number of characters of UTF-8 text; each is taken as one column. */
size_t safe_text_columns(const char *text);
/* Bytes of the text's beginning that has so many characters. */
size_t safe_text_cut(const char *text, size_t columns);
