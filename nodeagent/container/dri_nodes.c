/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/dri_nodes.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/num.h"
#include "base/xalloc.h"

/* A minor has 20 bits. */
#define MAX_MINOR ((1 << 20) - 1)

/* In the pattern, 'h' is a hexadecimal digit. */
static bool is_like(const char *text, const char *pattern)
{
    for (; *pattern; text++, pattern++) {
        bool fits = *pattern == 'h' ? isxdigit((unsigned char)*text) != 0 : *text == *pattern;
        if (!fits)
            return false;
    }
    return *text == '\0';
}

bool dri_bus_id(const char *text, char *ret)
{
    if (text && is_like(text, "hhhhhhhh:hh:hh.h") && strncmp(text, "0000", 4) == 0)
        text += 4;
    if (!text || !(is_like(text, "hhhh:hh:hh.h") || is_like(text, "hhhhhhhh:hh:hh.h")))
        return false;
    (void)snprintf(ret, DRI_BUS_ID_BYTES, "%s", text);
    for (char *c = ret; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return true;
}

int dri_number(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    int64_t n = 0;
    if (strncmp(name, prefix, len) != 0 || name[len] < '0' || name[len] > '9' ||
        num_parse(name + len, 0, MAX_MINOR, &n, /* e= */ NULL) < 0)
        return -1;
    return (int)n;
}

bool dri_file_stands(const char *dev_root, const char *name)
{
    struct stat st;
    auto_free char *path = xasprintf("%s/dev/%s", dev_root, name);
    return lstat(path, &st) == 0 && !S_ISLNK(st.st_mode) && !S_ISDIR(st.st_mode);
}

static void add_number(const char *dev_root, const char *name, const char *prefix,
                       unsigned numbers[static DRI_MAX_NODES], size_t *n)
{
    int number = dri_number(name, prefix);
    if (number < 0)
        return;
    auto_free char *path = xasprintf("dri/%s%d", prefix, number);
    if (*n < DRI_MAX_NODES && dri_file_stands(dev_root, path))
        numbers[(*n)++] = (unsigned)number;
}

static int by_number(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a;
    unsigned y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

static void read_card(const struct dri_where *w, struct dri_card *card)
{
    auto_free char *path = xasprintf("%s/bus/pci/devices/%s/drm", w->sys_root, card->bus_id);
    auto_dir DIR *dir = opendir(path);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        add_number(w->dev_root, entry->d_name, "card", card->cards, &card->n_cards);
        add_number(w->dev_root, entry->d_name, "renderD", card->renders, &card->n_renders);
    }
    qsort(card->cards, card->n_cards, sizeof(card->cards[0]), by_number);
    qsort(card->renders, card->n_renders, sizeof(card->renders[0]), by_number);
}

void dri_nodes_read(const struct dri_where *w, const char *host_dev_root,
                    const char *const *bus_ids, size_t n, struct dri_nodes *ret)
{
    bool is_root = !host_dev_root || strcmp(host_dev_root, "/") == 0;
    *ret = (struct dri_nodes){.host_dev_root = xstrdup(is_root ? "" : host_dev_root)};
    for (size_t i = 0; i < n; i++) {
        char bus_id[DRI_BUS_ID_BYTES];
        if (!dri_bus_id(bus_ids[i], bus_id))
            continue;
        struct dri_card *card = XPUSH(ret->cards, ret->n_cards);
        (void)snprintf(card->bus_id, sizeof(card->bus_id), "%s", bus_id);
        read_card(w, card);
    }
}

const struct dri_card *dri_nodes_card(const struct dri_nodes *n, const char *bus_id)
{
    char key[DRI_BUS_ID_BYTES];
    if (!dri_bus_id(bus_id, key))
        return NULL;
    for (size_t i = 0; i < n->n_cards; i++) {
        if (strcmp(n->cards[i].bus_id, key) == 0)
            return &n->cards[i];
    }
    return NULL;
}

static bool same_numbers(const unsigned *a, size_t n_a, const unsigned *b, size_t n_b)
{
    return n_a == n_b && memcmp(a, b, n_a * sizeof(*a)) == 0;
}

static bool same_card(const struct dri_card *a, const struct dri_card *b)
{
    return strcmp(a->bus_id, b->bus_id) == 0 &&
           same_numbers(a->cards, a->n_cards, b->cards, b->n_cards) &&
           same_numbers(a->renders, a->n_renders, b->renders, b->n_renders);
}

bool dri_nodes_equal(const struct dri_nodes *a, const struct dri_nodes *b)
{
    if (a->n_cards != b->n_cards)
        return false;
    for (size_t i = 0; i < a->n_cards; i++) {
        if (!same_card(&a->cards[i], &b->cards[i]))
            return false;
    }
    return true;
}

void dri_nodes_done(struct dri_nodes *n)
{
    free(n->cards);
    free(n->host_dev_root);
    *n = (struct dri_nodes){0};
}
