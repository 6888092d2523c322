/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/container/go_version.h"

#include <assert.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

enum { MAX_SECTIONS = 256, MAX_NAMES = 16384, MAX_RECORD = 96 << 10 };

/* --- The record --- */

/* The end of the line. */
static const char *line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return newline ? newline : end;
}

static bool take(const char **at, const char *end, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(end - *at) < len || memcmp(*at, word, len) != 0)
        return false;
    *at += len;
    return true;
}

/* Digits; -1: there are none, or too many. */
static int take_number(const char **at, const char *end)
{
    int n = -1;
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        n = (n < 0 ? 0 : n) * 10 + (**at - '0');
        if (n > 9999)
            return -1;
    }
    return n;
}

/* "mod\t<module>[/v2]\tv1.7.24\t…", and "dep" likewise. */
static bool read_module(const char *at, const char *end, const char *module, struct go_version *ret)
{
    if ((!take(&at, end, "mod\t") && !take(&at, end, "dep\t")) || !take(&at, end, module))
        return false;
    if (take(&at, end, "/v") && take_number(&at, end) < 0)
        return false;
    if (!take(&at, end, "\tv"))
        return false;
    int major = take_number(&at, end);
    bool has_minor = take(&at, end, ".");
    int minor = has_minor ? take_number(&at, end) : -1;
    if (major < 1 || minor < 0)
        return false;
    *ret = (struct go_version){major, minor};
    return true;
}

/* "path\t<module>/v2/cmd/containerd". */
static bool read_path(const char *at, const char *end, const char *module, struct go_version *ret)
{
    if (!take(&at, end, "path\t") || !take(&at, end, module) || !take(&at, end, "/"))
        return false;
    int major = take(&at, end, "v") ? take_number(&at, end) : -1;
    bool named = major > 1 && at < end && *at == '/';
    *ret = (struct go_version){named ? major : 1, -1};
    return true;
}

/* The first line with the length of the text before it: the record's texts have a length before
 * them, and a mark of 16 bytes around. */
static const char *first_line(const char *record, size_t len)
{
    const char *at = memmem(record, len, "path\t", strlen("path\t"));
    return at ? at : record + len;
}

int go_version_parse(const char *record, size_t len, const char *module, struct go_version *ret,
                     struct err *e)
{
    const char *end = record + len;
    struct go_version by_path = {0};
    for (const char *at = first_line(record, len); at < end;) {
        const char *stop = line_end(at, end);
        if (read_module(at, stop, module, ret))
            return 0;
        if (!by_path.major)
            (void)read_path(at, stop, module, &by_path);
        at = stop < end ? stop + 1 : end;
    }
    if (!by_path.major)
        return err_set(e, ERR_NOT_FOUND, "it is not built of %s", module);
    *ret = by_path;
    return 0;
}

/* --- The program --- */

static int read_at(int fd, void *to, size_t n, uint64_t at, struct err *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set_errno(e, errno, "read");
        if (got == 0)
            return err_set(e, ERR_NOT_FOUND, "it is cut short");
        done += (size_t)got;
    }
    return 0;
}

static int no_program(struct err *e)
{
    return err_set(e, ERR_NOT_FOUND, "it is no ELF program for 64 bits, or has no sections");
}

/* *ret: all sections. Caller frees. */
static int read_sections(int fd, const Elf64_Ehdr *h, Elf64_Shdr **ret, struct err *e)
{
    bool known = memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 && h->e_ident[EI_CLASS] == ELFCLASS64;
    if (!known || h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shnum == 0 ||
        h->e_shnum > MAX_SECTIONS || h->e_shstrndx >= h->e_shnum || h->e_shoff > INT64_MAX / 2)
        return no_program(e);
    auto_free Elf64_Shdr *sections = xcalloc(h->e_shnum, sizeof(*sections));
    TRY(read_at(fd, sections, h->e_shnum * sizeof(*sections), h->e_shoff, e));
    *ret = TAKE(sections);
    return 0;
}

static size_t least(uint64_t x, size_t most)
{
    return x < most ? (size_t)x : most;
}

static int find_record(int fd, const Elf64_Ehdr *h, const Elf64_Shdr *sections, Elf64_Shdr *ret,
                       struct err *e)
{
    static const char wanted[] = ".go.buildinfo";
    char names[MAX_NAMES];
    const Elf64_Shdr *text = &sections[h->e_shstrndx];
    size_t n = least(text->sh_size, sizeof(names));
    assert(h->e_shstrndx < h->e_shnum);
    if (text->sh_offset > INT64_MAX / 2)
        return no_program(e);
    TRY(read_at(fd, names, n, text->sh_offset, e));
    for (size_t i = 0; i < h->e_shnum; i++) {
        size_t at = sections[i].sh_name;
        if (at > n || n - at < sizeof(wanted) || memcmp(names + at, wanted, sizeof(wanted)) != 0)
            continue;
        *ret = sections[i];
        return ret->sh_offset > INT64_MAX / 2 ? no_program(e) : 0;
    }
    return err_set(e, ERR_NOT_FOUND, "it is no Go program");
}

int go_version_read(int fd, const char *module, struct go_version *ret, struct err *e)
{
    Elf64_Ehdr header;
    Elf64_Shdr found;
    auto_free Elf64_Shdr *sections = NULL;
    TRY(read_at(fd, &header, sizeof(header), 0, e));
    TRY(read_sections(fd, &header, &sections, e));
    TRY(find_record(fd, &header, sections, &found, e));
    size_t n = least(found.sh_size, MAX_RECORD);
    auto_free char *record = xmalloc(n + 1);
    TRY(read_at(fd, record, n, found.sh_offset, e));
    return go_version_parse(record, n, module, ret, e);
}
