/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "nodeagent/container/toml_scan.h"

/* Each case: a document, and its values as lines, path and text. */

static void note(void *arg, const struct toml_value *v)
{
    struct sb *out = arg;
    for (size_t i = 0; i < v->n_keys; i++)
        sb_addf(out, "%s%s", i ? "/" : "", v->keys[i]);
    sb_addf(out, "=%s;", v->text);
}

static void expect(const char *document, const char *values)
{
    auto_sb struct sb out = SB_INIT(65536);
    auto_err struct err e = {0};
    cr_assert_eq(toml_scan(document, strlen(document), note, &out, &e), 0, "%s: %s", document,
                 err_msg(&e));
    cr_expect_str_eq(sb_str(&out), values);
}

static void refuse(const char *document, int kind, const char *why)
{
    auto_sb struct sb out = SB_INIT(65536);
    auto_err struct err e = {0};
    cr_expect_eq(toml_scan(document, strlen(document), note, &out, &e), -kind, "%s", document);
    cr_expect_not_null(strstr(err_msg(&e), why), "%s: %s", document, err_msg(&e));
}

Test(toml_scan, values_of_all_kinds_have_a_path)
{
    expect("version = 3\n"
           "root = \"/var/lib/containerd\" # where\n"
           "[plugins.\"io.containerd.grpc.v1.cri\"]\r\n"
           "  enable_cdi = true\n"
           "  [plugins.'io.containerd.grpc.v1.cri'.containerd]\n"
           "    default_runtime_name = 'nvidia'\n",
           "version=3;root=/var/lib/containerd;plugins/io.containerd.grpc.v1.cri/enable_cdi=true;"
           "plugins/io.containerd.grpc.v1.cri/containerd/default_runtime_name=nvidia;");
}

Test(toml_scan, dotted_keys_and_inline_tables_nest)
{
    expect("a.\"b.c\" . d = 1\ne = { f = 2, g.h = [3, {i = 4}] }\n", "a/b.c/d=1;e/f=2;e/g/h=3;"
                                                                     "e/g/h/i=4;");
}

Test(toml_scan, arrays_go_over_lines)
{
    expect("imports = [ # of others\n  \"/etc/a.toml\",\n\n  'b/*.toml', # last\n]\nx = []\n",
           "imports=/etc/a.toml;imports=b/*.toml;");
    expect("[[a]]\nb = 1\n[[a]]\nb = 2\n", "a/b=1;a/b=2;");
}

Test(toml_scan, long_texts_keep_their_lines)
{
    expect("a = \"\"\"one\n\"two\\\"\"\"\"\nb = '''c\\'''\n", "a=one\n\"two\";b=c\\;");
}

Test(toml_scan, wrong_documents_are_refused_with_their_line)
{
    refuse("a = 1\nb\n", ERR_INVALID, "line 2: a key without a value");
    refuse("a = \"x\n", ERR_INVALID, "line 1: a text without its end");
    refuse("[a\n", ERR_INVALID, "line 1: a table's name without its end");
    refuse("a = [1, 2\n", ERR_INVALID, "an array without its end");
    refuse("a = {b = 1\n", ERR_INVALID, "an inline table without its end");
    refuse("a = 1 2\n", ERR_INVALID, "line 1: something after the value");
    refuse("a = \n", ERR_INVALID, "a value is missing");
    refuse("= 1\n", ERR_INVALID, "a key is missing");
}

Test(toml_scan, depth_and_length_are_bounded)
{
    char text[4096];
    memset(text, '[', sizeof(text));
    memcpy(text, "a=", 2);
    text[sizeof(text) - 1] = '\0';
    refuse(text, ERR_TOO_LARGE, "nested deeper");
    memset(text + 2, '1', sizeof(text) - 3);
    refuse(text, ERR_TOO_LARGE, "more than 1024 bytes");
    refuse("a.b.c.d.e.f.g.h.i.j.k.l.m = 1", ERR_TOO_LARGE, "nested deeper");
}
