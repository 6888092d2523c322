/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"

#include "kubeclient/config_source.h"
#include "kubeclient/fake/fake.h"
#include "kubeclient/http.h"
#include "test/unit/kc_conformance_support.h"

static struct kc *real_server(const char *kubeconfig)
{
    auto_kc_config struct kc_config config = {0};
    auto_err struct err e = {0};
    struct kc *kc = NULL;
    cr_assert_eq(kc_config_load(kubeconfig, /* context= */ NULL, &config, &e), 0, "%s", e.msg);
    cr_assert_eq(kc_http_new(&config, /* o= */ NULL, &kc, &e), 0, "%s", e.msg);
    return kc;
}

static struct kc *fake_server(void)
{
    struct kc *kc = kc_fake_new(clock_real());
    kc_fake_list_key(kc, "things", "spec.parts", "id");
    return kc;
}

static void run(void (*fn)(struct kc_conformance *t))
{
    const char *kubeconfig = getenv("CLEAVE_TEST_KUBECONFIG");
    auto_scope struct scope *s = scope_new(NULL, 120000);
    auto_kc struct kc *kc = kubeconfig ? real_server(kubeconfig) : fake_server();
    struct kc_conformance t = {.kc = kc, .s = s};
    kc_conformance_prepare(&t);
    fn(&t);
}

#define CASE(name)                                                                                 \
    Test(kc_conformance, name)                                                                     \
    {                                                                                              \
        run(kc_conformance_##name);                                                                \
    }
KC_CONFORMANCE_CASES(CASE)
