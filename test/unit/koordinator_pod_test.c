/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/auto.h"
#include "base/jx.h"
#include "base/xalloc.h"
#include "base/yaml.h"

#include "interop/koordinator_pod.h"

static json_t *yaml(const char *text)
{
    json_t *doc = NULL;
    auto_err struct err e = {0};
    cr_assert_eq(yaml_load(text, strlen(text), &doc, &e), 0, "%s: %s", text, err_msg(&e));
    return doc;
}

/* "2x 3000MiB/0% 30%": count, memory, percent of it, compute; or why not. */
static void expect(const char *resources, const char *want)
{
    struct share_request r = {0};
    auto_err struct err e = {0};
    auto_free char *text = xasprintf("resources: {limits: {%s}}", resources);
    auto_json json_t *container = yaml(text);
    int rc = koordinator_pod_request(container, &r, &e);
    auto_free char *got = rc < 0 ? xstrdup(err_msg(&e))
                                 : xasprintf("%ux %uMiB/%u%% %u%%", r.count, r.memory_mib,
                                             r.memory_percent, r.compute);
    cr_expect_str_eq(got, want, "%s: %s", resources, got);
}

#define ONE "gpu.cleave.dev/share: 1"
#define TWO "gpu.cleave.dev/share: '2'"

Test(koordinator_pod, its_words_say_how_much_a_share_is)
{
    expect(ONE ", koordinator.sh/gpu: 50", "1x 0MiB/50% 50%");
    expect(ONE ", koordinator.sh/gpu-core: 30, koordinator.sh/gpu-memory-ratio: '20'",
           "1x 0MiB/20% 30%");
    expect(ONE ", koordinator.sh/gpu-core: 30, koordinator.sh/gpu-memory: 3000Mi",
           "1x 3000MiB/0% 30%");
    expect(ONE ", koordinator.sh/gpu-memory-ratio: 20", "1x 0MiB/20% 0%");
    expect(ONE ", koordinator.sh/gpu-memory: 8Gi, koordinator.sh/gpu-memory-ratio: 20",
           "1x 8192MiB/0% 0%");
}

Test(koordinator_pod, amounts_are_of_all_shares_together)
{
    expect(TWO ", koordinator.sh/gpu: 200", "2x 0MiB/100% 100%");
    expect(TWO ", koordinator.sh/gpu.shared: 2, koordinator.sh/gpu-core: 100, "
               "koordinator.sh/gpu-memory: 16Gi",
           "2x 8192MiB/0% 50%");
}

Test(koordinator_pod, memory_is_rounded_down_so_that_what_fits_there_fits_here)
{
    expect(ONE ", koordinator.sh/gpu-memory: 42760404992", "1x 40779MiB/0% 0%");
    expect(TWO ", koordinator.sh/gpu-memory: 3Mi", "2x 1MiB/0% 0%");
}

Test(koordinator_pod, whoever_asks_for_no_slot_asks_for_no_share)
{
    expect("koordinator.sh/gpu: 50", "0x 0MiB/0% 0%");
    expect("cpu: 1", "0x 0MiB/0% 0%");
}

Test(koordinator_pod, zero_of_something_is_none_of_it)
{
    expect(ONE ", koordinator.sh/gpu-core: 0, koordinator.sh/gpu-memory: 0, "
               "koordinator.sh/gpu-memory-ratio: 20, koordinator.sh/gpu.shared: 0",
           "1x 0MiB/20% 0%");
}

#define NO_MEMORY                                                                                  \
    "the container asks for gpu.cleave.dev/share and for no memory in Koordinator's words: write " \
    "koordinator.sh/gpu-memory, koordinator.sh/gpu-memory-ratio or koordinator.sh/gpu beside it, " \
    "or nvidia.com/gpu alone for a whole card"

/* Its books would not have them. */
Test(koordinator_pod, what_its_scheduler_does_not_count_is_refused)
{
    expect(ONE, NO_MEMORY);
    expect(ONE ", koordinator.sh/gpu-core: 1", NO_MEMORY);
    expect(ONE ", koordinator.sh/gpu: 0", NO_MEMORY);
    expect(ONE ", koordinator.sh/gpu.shared: 2, koordinator.sh/gpu-memory: 2Gi",
           "gpu.cleave.dev/share is 1 and koordinator.sh/gpu.shared is 2: write the same number");
}

#define MOST "9223372036854775807"

Test(koordinator_pod, what_no_card_can_give_is_refused_with_the_remedy)
{
    expect(ONE ", koordinator.sh/gpu: 200",
           "koordinator.sh/gpu-core is 200, and a share has 100 of its card at most: write "
           "gpu.cleave.dev/share: 2, or ask for less");
    expect(ONE ", koordinator.sh/gpu-core: " MOST ", koordinator.sh/gpu-memory: 1Gi",
           "koordinator.sh/gpu-core is " MOST ", and a share has 100 of its card at most: write "
           "gpu.cleave.dev/share: 92233720368547759, or ask for less");
    expect(TWO ", koordinator.sh/gpu-core: 1, koordinator.sh/gpu-memory: 1Gi",
           "koordinator.sh/gpu-core is 1; write from 1 to 100 for each share");
    expect(ONE ", koordinator.sh/gpu-memory: 10",
           "koordinator.sh/gpu-memory is 10 bytes; write from 1Mi to 16Ti for each share");
    expect(
        ONE ", koordinator.sh/gpu-memory: 16Ti",
        "koordinator.sh/gpu-memory is 17592186044416 bytes; write from 1Mi to 16Ti for each share");
    expect("gpu.cleave.dev/share: 1025",
           ".gpu.cleave.dev/share: must be between 0 and 1024, is 1025");
    expect(ONE ", koordinator.sh/gpu-core: ten",
           ".koordinator.sh/gpu-core: \"ten\" is not a quantity");
}

/* --- Which cards --- */

/* The containers of a pod, and the ids of the cards of one of them. */
static void expect_cards(const char *spec, const char *cards, const char *container, size_t n,
                         const char *want)
{
    auto_err struct err e = {0};
    auto_json json_t *got = NULL;
    auto_free char *text =
        xasprintf("{metadata: {annotations: {scheduling.koordinator.sh/device-allocated: '%s'}}, "
                  "spec: {%s}}",
                  cards, spec);
    auto_json json_t *pod = yaml(text);
    int rc = koordinator_pod_cards(pod, container, SHARE_SLOT, n, &got, &e);
    auto_free char *said = rc < 0 ? xstrdup(err_msg(&e)) : jx_dump(got);
    cr_expect(strstr(said, want) == said, "%s: %s", cards, said);
}

#define C(name, n) "{name: " name ", resources: {limits: {gpu.cleave.dev/share: " n "}}}"
#define SIDECAR(name, n)                                                                           \
    "{name: " name ", restartPolicy: Always, resources: {limits: {gpu.cleave.dev/share: " n "}}}"
#define CHOSEN "annotation scheduling.koordinator.sh/device-allocated "
#define A      "{\"id\":\"A\"}"
#define B      "{\"id\":\"B\"}"

Test(koordinator_pod, cards_go_to_containers_in_their_order)
{
    static const char two[] = "containers: [" C("x", "1") ", " C("y", "1") "]";
    expect_cards(two, "{\"gpu\":[" A "," B "]}", "x", 1, "[\"A\"]");
    expect_cards(two, "{\"gpu\":[" A "," B "]}", "y", 1, "[\"B\"]");
    expect_cards("containers: [" C("x", "2") "]", "{\"gpu\":[" A "," B "]}", "x", 2,
                 "[\"A\",\"B\"]");
}

Test(koordinator_pod, fewer_cards_than_shares_are_each_for_equally_many)
{
    static const char four[] =
        "containers: [" C("a", "1") ", " C("b", "1") ", " C("c", "1") ", " C("d", "1") "]";
    expect_cards(four, "{\"gpu\":[" A "]}", "d", 1, "[\"A\"]");
    expect_cards(four, "{\"gpu\":[" A "," B "]}", "b", 1, "[\"A\"]");
    expect_cards(four, "{\"gpu\":[" A "," B "]}", "c", 1, "[\"B\"]");
    expect_cards(four, "{\"gpu\":[" A "," A "," B "]}", "c", 1,
                 CHOSEN
                 "has 3 cards for 4 shares of the pod: let its containers ask for equal parts");
}

Test(koordinator_pod, init_containers_have_the_cards_before_the_apps)
{
    static const char spec[] =
        "initContainers: [" C("i", "1") ", " SIDECAR("s",
                                                     "1") ", " C("j",
                                                                 "1") "], containers: [" C("x",
                                                                                           "1") "]";
    expect_cards(spec, "{\"gpu\":[" A "," B "]}", "i", 1, "[\"A\"]");
    expect_cards(spec, "{\"gpu\":[" A "," B "]}", "s", 1, "[\"A\"]");
    expect_cards(spec, "{\"gpu\":[" A "," B "]}", "j", 1, "[\"B\"]");
    expect_cards(spec, "{\"gpu\":[" A "," B "]}", "x", 1, "[\"B\"]");
}

Test(koordinator_pod, what_its_scheduler_did_not_write_is_refused)
{
    static const char one[] = "containers: [" C("x", "1") "]";
    static const char *const none[] = {"{}", "{\"gpu\":[]}", "{\"gpu\":{}}", "[]"};
    static const char *const nameless[] = {"{\"gpu\":[{\"minor\":0}]}", "{\"gpu\":[{\"id\":7}]}"};
    for (size_t i = 0; i < ARRAY_LEN(none); i++)
        expect_cards(one, none[i], "x", 1, CHOSEN "gives container x no card");
    for (size_t i = 0; i < ARRAY_LEN(nameless); i++)
        expect_cards(one, nameless[i], "x", 1, CHOSEN "names a card without its id");
    expect_cards(one, "{", "x", 1, "annotation scheduling.koordinator.sh/device-allocated: ");
    expect_cards(one, "{\"gpu\":[" A "]}", "none", 1, CHOSEN "gives container none no card");
}

Test(koordinator_pod, without_the_annotation_it_did_not_choose)
{
    auto_json json_t *pod = yaml("{spec: {containers: [" C("x", "1") "]}}");
    auto_json json_t *got = NULL;
    cr_expect_eq(koordinator_pod_cards(pod, "x", SHARE_SLOT, 1, &got, NULL), 0);
    cr_expect_not(got);
}
