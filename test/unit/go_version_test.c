/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/xalloc.h"

#include "nodeagent/container/go_version.h"

#define MODULE "github.com/containerd/containerd"

static const struct {
    const char *record;
    int major, minor; /* major 0: not found */
} records[] = {
    {"\xff Go buildinf:\x08\x02go1.26\x01"
     "0123456789abcdefpath\t" MODULE "/v2/cmd/containerd\n"
     "mod\t" MODULE "/v2\tv2.1.9\th1:x=\ndep\tdario.cat/mergo\tv1.0.1\n",
     2, 1},
    {"path\t" MODULE "/cmd/containerd\nmod\t" MODULE "\tv1.7.24\t\n", 1, 7},
    {"path\t" MODULE "/cmd/containerd\nmod\t" MODULE "\t(devel)\t\n", 1, -1},
    {"path\t" MODULE "/v2/cmd/containerd\nmod\t" MODULE "/v2\t(devel)\t\n", 2, -1},
    {"path\tgithub.com/k3s-io/k3s/cmd/server\nmod\tgithub.com/k3s-io/k3s\tv1.30.2\n"
     "dep\t" MODULE "\tv1.7.17\n=>\tgithub.com/k3s-io/containerd\tv1.7.17-k3s1\n",
     1, 7},
    {"path\tgithub.com/k3s-io/k3s/cmd/server\n", 0, 0},
    {"path\t" MODULE "-other/cmd\nmod\t" MODULE "-other\tv3.1.0\n", 0, 0},
    {"mod\t" MODULE "\tv99999.1\npath", 0, 0},
    {"", 0, 0},
};

Test(go_version, the_record_of_a_program_tells_the_module)
{
    for (size_t i = 0; i < ARRAY_LEN(records); i++) {
        struct go_version v = {0};
        int rc = go_version_parse(records[i].record, strlen(records[i].record), MODULE, &v, NULL);
        cr_expect_eq(rc, records[i].major ? 0 : -(int)ERR_NOT_FOUND, "%zu", i);
        cr_expect_eq(v.major, records[i].major, "%zu: %d", i, v.major);
        cr_expect(!records[i].major || v.minor == records[i].minor, "%zu: %d", i, v.minor);
    }
}

/* A program of two sections: names, and the record. */
struct program {
    Elf64_Ehdr header;
    Elf64_Shdr sections[2];
    char names[32];
    char record[128];
};

static struct program program(void)
{
    static const char names[] = "\0.shstrtab\0.go.buildinfo";
    struct program p = {.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                                   .e_shoff = offsetof(struct program, sections),
                                   .e_shentsize = sizeof(Elf64_Shdr),
                                   .e_shnum = 2,
                                   .e_shstrndx = 0}};
    memcpy(p.names, names, sizeof(names));
    p.sections[0] = (Elf64_Shdr){.sh_name = 1,
                                 .sh_offset = offsetof(struct program, names),
                                 .sh_size = sizeof(p.names)};
    p.sections[1] = (Elf64_Shdr){.sh_name = 11,
                                 .sh_offset = offsetof(struct program, record),
                                 .sh_size = sizeof(p.record)};
    (void)snprintf(p.record, sizeof(p.record), "%s", records[1].record);
    return p;
}

static int read_program(const struct program *p, struct go_version *ret)
{
    FILE *f = tmpfile();
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(p, sizeof(*p), 1, f), 1);
    cr_assert_eq(fflush(f), 0);
    int rc = go_version_read(fileno(f), MODULE, ret, NULL);
    cr_assert_eq(fclose(f), 0);
    return rc;
}

Test(go_version, it_is_read_out_of_a_program)
{
    struct go_version v = {0};
    struct program p = program();
    cr_assert_eq(read_program(&p, &v), 0);
    cr_expect_eq(v.major, 1);
    cr_expect_eq(v.minor, 7);
}

Test(go_version, a_program_that_lies_about_itself_is_not_found_out_about)
{
    const struct program good = program();
    unsigned n_read = 0;
    for (size_t at = 0; at < sizeof(good.header) + sizeof(good.sections); at++)
        for (unsigned value = 1; value < 256; value += 42) {
            struct go_version v;
            struct program p = good;
            ((unsigned char *)&p)[at] ^= (unsigned char)value;
            n_read += read_program(&p, &v) == 0;
        }
    cr_expect_gt(n_read, 0);
}
