/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "base/jx.h"
#include "base/sb.h"
#include "base/xalloc.h"

#include "interop/hami_pod.h"
#include "partition/fraction.h"
#include "partition/fraction_words.h"

/*
 * What HAMi's own table tests say of the choice of cards (v2.10, commit 4707fb02), as facts that the
 * planner is held to: which cards a pod gets, and why a card takes no share. Each names its source,
 * below pkg/.
 *
 * Cards are named a, b, c in the order of HAMi's list. HAMi's cards of one container come in the
 * order in which they were found; here they are compared as a set.
 */

enum { CARDS = 10, ASKS = 3 };

#define NONE    "none"    /* the pod does not fit */
#define REFUSED "refused" /* its annotations are not accepted */

struct fact {
    const char *name, *source;
    const char *wishes;                /* the pod's annotations, by SAYS; NULL: none */
    struct fraction_card cards[CARDS]; /* those with a model; without a uuid it is the letter */
    struct fraction_ask asks[ASKS];    /* those with a name */
    const uint16_t *pairs;             /* n * n; NULL: not known */
    bool order;                        /* want is the order of the cards: "ba" */
    const char *want;    /* the cards of each container, "ab;c;"; or NONE or REFUSED */
    const char *misfits; /* why cards refuse the first container; NULL: HAMi's test does not say */
};

/* --- Builders --- */

#define SAYS(key, value) "\"" key "\": \"" value "\""
#define POLICY(value)    SAYS(HAMI_CARD_POLICY, value)
#define WEIGHTS(value)   SAYS(HAMI_WEIGHTS, value)
#define ONE_NUMA         SAYS(HAMI_NUMA_BIND, "true")
#define ANY              "NVIDIA"

/* A card with so many shares, MiB and percent in use; then other members. */
#define CARD(used_shares, n_shares, used_mib, mib, used_pct, pct, ...)                             \
    {                                                                                              \
        .model = ANY, .total = {mib, pct, n_shares}, .used = {used_mib, used_pct, used_shares},    \
        __VA_ARGS__                                                                                \
    }
#define EMPTY CARD(0, 10, 0, 8000, 0, 100)
/* A card of HAMi's tests of the order, which give scores: its memory makes it as full. */
#define SCORED(score, node) CARD(0, 100, score, 100, 0, 100, .numa = node)
/* The two cards of HAMi's tests of the weights: one has most of its compute in use, the other of its
 * shares. */
#define BUSY_CORES  CARD(1, 10, 10, 100, 90, 100)
#define BUSY_SHARES CARD(7, 10, 20, 100, 10, 100)
/* One share of four in use, 2048 of 8192 MiB. */
#define QUARTER(used_pct, pct, ...) CARD(1, 4, 2048, 8192, used_pct, pct, __VA_ARGS__)
#define CALLED(name)                                                                               \
    {                                                                                              \
        .model = name, .total = { 8192, 100, 10 }                                                  \
    }
#define WITH_UUID(text) QUARTER(1, 4, .uuid = text)

#define ASK(n, mib, pct)                                                                           \
    {                                                                                              \
        .container = "app", .count = n, .memory_mib = mib, .percent = pct                          \
    }
#define ASK_PART(n, mib_pct, pct)                                                                  \
    {                                                                                              \
        .container = "app", .count = n, .memory_percent = mib_pct, .percent = pct                  \
    }
#define ASK_INIT(n, mib, pct)                                                                      \
    {                                                                                              \
        .container = "init", .phase = FRACTION_INIT, .count = n, .memory_mib = mib, .percent = pct \
    }
#define ASK_NOTHING                                                                                \
    {                                                                                              \
        .container = "none"                                                                        \
    }
#define ASK_LITTLE ASK(1, 1, 0)

/* A share of next to nothing, of a card that the lists allow or do not. */
#define LISTED(title, from, card, says, ...)                                                       \
    {                                                                                              \
        .name = title, .source = from, .wishes = says, .cards = {card}, .asks = {ASK_LITTLE},      \
        __VA_ARGS__                                                                                \
    }
/* The same of one of two cards, whichever comes first by the policy. */
#define PICKED(title, says, first, second, result)                                                 \
    {                                                                                              \
        .name = title, .source = LESS, .wishes = says, .cards = {first, second},                   \
        .asks = {ASK_LITTLE}, .want = result                                                       \
    }
#define BAD_WEIGHTS(title, text)                                                                   \
    {                                                                                              \
        .name = title, .source = PARSED, .wishes = WEIGHTS(text), .want = REFUSED                  \
    }

#define FIT      "device/nvidia/device_test.go TestDevices_Fit"
#define CORDON   "device/nvidia/device_test.go TestFit_DeviceCordon"
#define CERTAIN  "scheduler/score_test.go Test_fitInCertainDevice"
#define TYPE     "device/nvidia/device_test.go Test_checkType"
#define IS_TYPE  "device/devices_test.go TestCheckType"
#define IS_UUID  "device/devices_test.go TestCheckUUID"
#define LESS     "scheduler/policy/gpu_policy_test.go TestDeviceUsageList_Less"
#define CHAIN    "scheduler/policy/gpu_policy.go lessByChain"
#define WORST    "device/nvidia/device.go computeWorstSingleCard"
#define SCORE    "scheduler/policy/gpu_policy_test.go TestComputeScore"
#define WEIGHTED "scheduler/policy/gpu_policy_test.go TestComputeScoreWithResourceWeights"
#define PARSED   "util/device_scoring_weights_test.go TestParseDeviceScoringWeights"
#define CALC     "scheduler/score_test.go Test_calcScore"

/* --- The facts --- */

static const uint16_t triangle[] = {0, 100, 200, 100, 0, 150, 200, 150, 0};
static const uint16_t unconnected[9] = {0};
/* -5, -3 and -1 in HAMi's test, where scores may be negative: each 10 more. */
static const uint16_t raised[] = {0, 5, 7, 5, 0, 9, 7, 9, 0};
/* clang-format off */
/* f is near a and c. */
static const uint16_t star[] = {
      0,   1,   1,   1,   1, 100,
      1,   0,   1,   1,   1,   1,
      1,   1,   0,   1,   1, 100,
      1,   1,   1,   0,   1,   1,
      1,   1,   1,   1,   0,   1,
    100,   1, 100,   1,   1,   0,
};
/* f is far from all. */
static const uint16_t outcast[] = {
      0, 100, 100, 100, 100,   1,
    100,   0, 100, 100, 100,   1,
    100, 100,   0, 100, 100,   1,
    100, 100, 100,   0, 100,   1,
    100, 100, 100, 100,   0,   1,
      1,   1,   1,   1,   1,   0,
};
/* clang-format on */
/* c is near d, which is far from the others, and far from these. */
static const uint16_t pair_of_two[] = {0, 9, 1, 0, 9, 0, 1, 0, 1, 1, 0, 100, 0, 0, 100, 0};
#define SIX                                                                                        \
    QUARTER(1, 100, .numa = 0), QUARTER(1, 100, .numa = 0), QUARTER(1, 100, .numa = 1),            \
        QUARTER(1, 100, .numa = 1), QUARTER(1, 100, .numa = 1), QUARTER(1, 100, .numa = 1)

static const struct fact facts[] = {
    /* One card and one share. */
    {.name = "a card gives no more memory than it has",
     .source = FIT,
     .cards = {CARD(0, 100, 0, 128, 0, 100)},
     .asks = {ASK(1, 512, 50)},
     .want = NONE,
     .misfits = "1/1 CardInsufficientMemory"},
    {.name = "a card gives no more compute than is left",
     .source = FIT,
     .cards = {CARD(0, 100, 0, 1024, 100, 100)},
     .asks = {ASK(1, 512, 50)},
     .want = NONE,
     .misfits = "1/1 CardInsufficientCore"},
    {.name = "a card gives no more shares than it may",
     .source = FIT,
     .cards = {CARD(100, 100, 0, 1280, 0, 100)},
     .asks = {ASK(1, 512, 50)},
     .want = NONE,
     .misfits = "1/1 CardTimeSlicingExhausted"},
    {.name = "all of a card's compute is given to one that has the card alone",
     .source = FIT,
     .cards = {CARD(20, 100, 0, 1280, 0, 100)},
     .asks = {ASK(1, 512, 100)},
     .want = NONE,
     .misfits = "1/1 ExclusiveDeviceAllocateConflict"},
    {.name = "who asks for no compute needs some that is left",
     .source = FIT,
     .cards = {CARD(20, 100, 0, 1280, 100, 100)},
     .asks = {ASK(1, 512, 0)},
     .want = NONE,
     .misfits = "1/1 CardComputeUnitsExhausted"},
    {.name = "a part of the memory is a part of the card's",
     .source = FIT,
     .cards = {CARD(20, 100, 0, 1280, 10, 100)},
     .asks = {ASK_PART(1, 10, 20)},
     .want = "a;"},
    {.name = "an unhealthy card gives nothing",
     .source = FIT,
     .cards = {CARD(20, 100, 0, 1280, 10, 100, .ill = true)},
     .asks = {ASK_PART(1, 10, 20)},
     .want = NONE,
     .misfits = "1/1 CardNotHealth"},
    {.name = "all of the memory is on an empty card",
     .source = "device/nvidia/device_test.go TestZeroMemoryPercentageIsAccountedAsWholeCard",
     .cards = {CARD(0, 10, 0, 11264, 0, 100)},
     .asks = {ASK_PART(1, 100, 0)},
     .want = "a;"},
    {.name = "all of the memory is not on a card that is nearly full",
     .source = "device/nvidia/device_test.go TestZeroMemoryPercentageIsAccountedAsWholeCard",
     .cards = {CARD(0, 10, 11260, 11264, 0, 100)},
     .asks = {ASK_PART(1, 100, 0)},
     .want = NONE,
     .misfits = "1/1 CardInsufficientMemory"},
    {.name = "a share fits on a card that has shares",
     .source = CERTAIN,
     .cards = {QUARTER(1, 4)},
     .asks = {ASK(1, 1024, 1)},
     .want = "a;"},
    {.name = "a card that has more shares than it may gives none",
     .source = CERTAIN,
     .cards = {CARD(5, 4, 2048, 8192, 1, 4)},
     .asks = {ASK(1, 1024, 1)},
     .want = NONE,
     .misfits = "1/1 CardTimeSlicingExhausted"},
    {.name = "a card that offers less compute does not give all of one",
     .source = CERTAIN,
     .cards = {QUARTER(1, 4)},
     .asks = {ASK(1, 1024, 100)},
     .want = NONE,
     .misfits = "1/1 CardInsufficientCore"},
    {.name = "memory is named before compute where both lack",
     .source = CERTAIN,
     .cards = {CARD(1, 4, 8000, 8000, 1, 4)},
     .asks = {ASK_PART(1, 100, 100)},
     .want = NONE,
     .misfits = "1/1 CardInsufficientMemory"},
    {.name = "a card with one share is not given alone, though all of its compute is left",
     .source = CERTAIN,
     .cards = {QUARTER(0, 100)},
     .asks = {ASK(1, 100, 100)},
     .want = NONE,
     .misfits = "1/1 ExclusiveDeviceAllocateConflict"},
    {.name = "a card that offers one percent, which is given, takes nobody without compute",
     .source = CERTAIN,
     .cards = {QUARTER(1, 1)},
     .asks = {ASK(1, 1024, 0)},
     .want = NONE,
     .misfits = "1/1 CardComputeUnitsExhausted"},
    {.name = "each card is counted for its own reason",
     .source = CERTAIN,
     .wishes = SAYS(HAMI_USE_UUID, "a,f,c,d,e,g,h,j,l,u,m"),
     .cards =
         {QUARTER(1, 100, .uuid = "b"), QUARTER(1, 100, .uuid = "q"), QUARTER(1, 100, .uuid = "i"),
          CARD(4, 4, 2048, 8192, 1, 100, .uuid = "c"), CARD(4, 4, 2048, 8192, 1, 100, .uuid = "j"),
          CARD(4, 4, 2048, 8192, 1, 100, .uuid = "u"), CARD(4, 4, 2048, 8192, 1, 100, .uuid = "l"),
          CARD(1, 4, 8048, 8192, 1, 100, .uuid = "d"), CARD(1, 4, 8048, 8192, 1, 100, .uuid = "m"),
          CARD(1, 4, 2048, 8192, 90, 100, .uuid = "e")},
     .asks = {ASK(2, 1024, 20)},
     .want = NONE,
     .misfits = "3/10 CardUuidMismatch, 4/10 CardTimeSlicingExhausted, 2/10 "
                "CardInsufficientMemory, 1/10 CardInsufficientCore"},

    /* Cordons. */
    {.name = "a cordoned card is passed over",
     .source = CORDON,
     .cards = {CARD(0, 100, 0, 128, 0, 100), CARD(0, 100, 0, 128, 0, 100, .cordoned = true)},
     .asks = {ASK(1, 64, 50)},
     .want = "a;"},
    {.name = "with all cards cordoned nothing fits",
     .source = CORDON,
     .cards = {CARD(0, 100, 0, 128, 0, 100, .cordoned = true),
               CARD(0, 100, 0, 128, 0, 100, .cordoned = true)},
     .asks = {ASK(1, 64, 50)},
     .want = NONE,
     .misfits = "2/2 CardCordoned"},
    {.name = "a cordoned card with shares is passed over, and keeps them",
     .source = CORDON,
     .cards = {CARD(0, 100, 0, 128, 0, 100), CARD(1, 100, 64, 128, 50, 100, .cordoned = true)},
     .asks = {ASK(1, 64, 50)},
     .want = "a;"},

    /* Lists of models. */
    LISTED("a model is named by a part of its name", TYPE, CALLED("NVIDIA A100"),
           SAYS(HAMI_USE_MODEL, "A10"), .want = "a;"),
    LISTED("a model that both lists name is not used", TYPE, CALLED("NVIDIA A100"),
           SAYS(HAMI_USE_MODEL, "A10") ", " SAYS(HAMI_NO_MODEL, "A100"), .want = NONE,
           .misfits = "1/1 CardTypeMismatch"),
    LISTED("a longer name in the list of the others does not exclude a shorter one", TYPE,
           CALLED("NVIDIA A10"), SAYS(HAMI_USE_MODEL, "A10") ", " SAYS(HAMI_NO_MODEL, "A100"),
           .want = "a;"),
    LISTED("without lists each model will do", IS_TYPE, CALLED("NVIDIA-A100"), NULL, .want = "a;"),
    LISTED("one item of several suffices", IS_TYPE, CALLED("NVIDIA-A100"),
           SAYS(HAMI_USE_MODEL, "A100,V100"), .want = "a;"),
    LISTED("a model that is not named is not used", IS_TYPE ", TestCheckGPUtype_InUseMismatch",
           CALLED("NVIDIA-A100"), SAYS(HAMI_USE_MODEL, "V100"), .want = NONE,
           .misfits = "1/1 CardTypeMismatch"),
    LISTED("a model that is excluded is not used", IS_TYPE ", TestCheckGPUtype_NoUse",
           CALLED("NVIDIA-A100"), SAYS(HAMI_NO_MODEL, "A100"), .want = NONE,
           .misfits = "1/1 CardTypeMismatch"),
    LISTED("a model that is not excluded is used", IS_TYPE ", TestCheckGPUtype_NoUse",
           CALLED("NVIDIA-A100"), SAYS(HAMI_NO_MODEL, "V100"), .want = "a;"),
    LISTED("what is named and excluded by the same word is not used", IS_TYPE,
           CALLED("NVIDIA-A100"), SAYS(HAMI_USE_MODEL, "A100") ", " SAYS(HAMI_NO_MODEL, "A100"),
           .want = NONE, .misfits = "1/1 CardTypeMismatch"),
    LISTED("an empty list of models allows all", IS_TYPE ", TestCheckGPUtype_EmptyAnnotation",
           CALLED("NVIDIA-A100"), SAYS(HAMI_USE_MODEL, ""), .want = "a;"),
    LISTED("a list of models with blanks only allows all",
           "device/nvidia/device_test.go TestCheckGPUtype_EmptyAnnotation", CALLED("NVIDIA-A100"),
           SAYS(HAMI_USE_MODEL, "   "), .want = "a;"),
    LISTED("an empty list of models excludes none",
           "device/nvidia/device_test.go TestCheckGPUtype_EmptyAnnotation", CALLED("NVIDIA-A100"),
           SAYS(HAMI_NO_MODEL, ""), .want = "a;"),
    LISTED("a list of models with blanks only excludes none",
           IS_TYPE ", TestCheckGPUtype_EmptyAnnotation", CALLED("NVIDIA-A100"),
           SAYS(HAMI_NO_MODEL, "   "), .want = "a;"),
    LISTED("a comma at the end does not exclude all models", IS_TYPE, CALLED("NVIDIA-A100"),
           SAYS(HAMI_NO_MODEL, "V100,"), .want = "a;"),
    LISTED("a comma at the beginning does not exclude all models", IS_TYPE, CALLED("NVIDIA-A100"),
           SAYS(HAMI_NO_MODEL, ",V100"), .want = "a;"),
    LISTED("a comma at the end does not allow all models", IS_TYPE, CALLED("NVIDIA-A100"),
           SAYS(HAMI_USE_MODEL, "V100,"), .want = NONE, .misfits = "1/1 CardTypeMismatch"),

    /* Lists of uuids. */
    {.name = "a uuid that is not named is not used",
     .source = FIT,
     .wishes = SAYS(HAMI_USE_UUID, "dev-0"),
     .cards = {CARD(0, 100, 0, 1280, 0, 100, .uuid = "dev-1")},
     .asks = {ASK(2, 512, 50)},
     .want = NONE,
     .misfits = "1/1 CardUuidMismatch"},
    {.name = "a uuid that is excluded is not used",
     .source = FIT,
     .wishes = SAYS(HAMI_NO_UUID, "dev-0"),
     .cards = {CARD(0, 100, 0, 1280, 0, 100, .uuid = "dev-0")},
     .asks = {ASK(2, 512, 50)},
     .want = NONE,
     .misfits = "1/1 CardUuidMismatch"},
    {.name = "a share is not put on a card of another uuid",
     .source = CERTAIN,
     .wishes = SAYS(HAMI_USE_UUID, "abc"),
     .cards = {WITH_UUID("test-0")},
     .asks = {ASK(1, 1024, 1)},
     .want = NONE,
     .misfits = "1/1 CardUuidMismatch"},
    LISTED("without lists each uuid will do", IS_UUID, WITH_UUID("abc"), NULL, .want = "a;"),
    LISTED("a uuid that is named is used", IS_UUID, WITH_UUID("abc"),
           SAYS(HAMI_USE_UUID, "abc,123"), .want = "a;"),
    LISTED("a uuid is not named by a part of it", IS_UUID, WITH_UUID("1abc"),
           SAYS(HAMI_USE_UUID, "abc,123"), .want = NONE, .misfits = "1/1 CardUuidMismatch"),
    LISTED("one item of several excludes", IS_UUID, WITH_UUID("abc"), SAYS(HAMI_NO_UUID, "abc,123"),
           .want = NONE, .misfits = "1/1 CardUuidMismatch"),
    LISTED("a uuid is not excluded by a part of it", IS_UUID, WITH_UUID("1abc"),
           SAYS(HAMI_NO_UUID, "abc,123"), .want = "a;"),
    LISTED("a uuid that both lists name is not used", IS_UUID, WITH_UUID("abc"),
           SAYS(HAMI_USE_UUID, "abc,123") ", " SAYS(HAMI_NO_UUID, "abc"), .want = NONE,
           .misfits = "1/1 CardUuidMismatch"),
    LISTED("a uuid that is named is used, whatever others are excluded", IS_UUID, WITH_UUID("abc"),
           SAYS(HAMI_USE_UUID, "abc,123") ", " SAYS(HAMI_NO_UUID, "456"), .want = "a;"),
    LISTED("blanks around a uuid do not count", IS_UUID, WITH_UUID("abc"),
           SAYS(HAMI_USE_UUID, " abc , 123 "), .want = "a;"),
    LISTED("an empty list of uuids allows all", IS_UUID, WITH_UUID("abc"), SAYS(HAMI_USE_UUID, ""),
           .want = "a;"),
    LISTED("a list of uuids with blanks only allows all", IS_UUID, WITH_UUID("abc"),
           SAYS(HAMI_USE_UUID, "   "), .want = "a;"),
    LISTED("an empty list of uuids excludes none", IS_UUID, WITH_UUID("abc"),
           SAYS(HAMI_NO_UUID, ""), .want = "a;"),

    /* NUMA nodes. */
    {.name = "cards of one NUMA node are taken, though one of another comes first",
     .source = "device/nvidia/device_test.go TestFit_NumaSwitching",
     .wishes = ONE_NUMA,
     .cards = {CARD(0, 10, 0, 8192, 0, 100, .numa = 1), CARD(0, 10, 0, 8192, 0, 100, .numa = 1),
               CARD(0, 10, 0, 8192, 0, 100, .numa = 0)},
     .asks = {ASK(2, 100, 10)},
     .want = "ab;"},
    {.name = "cards of two NUMA nodes are not taken together",
     .source = CERTAIN,
     .wishes = SAYS(HAMI_USE_MODEL, ANY) ", " ONE_NUMA,
     .cards = {QUARTER(1, 4, .numa = 0), QUARTER(1, 4, .numa = 1)},
     .asks = {ASK(2, 1024, 1)},
     .want = NONE},
    {.name = "who says that NUMA nodes do not matter gets cards of two",
     .source = "device/nvidia/device_test.go TestAssertNuma",
     .wishes = SAYS(HAMI_NUMA_BIND, "false"),
     .cards = {QUARTER(1, 4, .numa = 0), QUARTER(1, 4, .numa = 1)},
     .asks = {ASK(2, 1024, 1)},
     .want = "ab;"},
    {.name = "who says nothing of NUMA nodes gets cards of two",
     .source = "device/nvidia/device_test.go TestAssertNuma",
     .cards = {QUARTER(1, 4, .numa = 0), QUARTER(1, 4, .numa = 1)},
     .asks = {ASK(2, 1024, 1)},
     .want = "ab;"},

    /* The order of the policies. */
    PICKED("binpack takes the fuller card", POLICY("binpack"), SCORED(10, 0), SCORED(20, 0), "b;"),
    PICKED("binpack takes the fuller card of a lower NUMA node", POLICY("binpack"), SCORED(10, 1),
           SCORED(20, 0), "b;"),
    PICKED("binpack takes the fuller card of a higher NUMA node", POLICY("binpack"), SCORED(10, 0),
           SCORED(20, 1), "b;"),
    PICKED("binpack takes the fuller card where it comes first", POLICY("binpack"), SCORED(20, 1),
           SCORED(10, 0), "a;"),
    PICKED("spread takes the emptier card", POLICY("spread"), SCORED(10, 0), SCORED(20, 0), "a;"),
    PICKED("spread takes the emptier card of a higher NUMA node", POLICY("spread"), SCORED(10, 1),
           SCORED(20, 0), "a;"),
    PICKED("spread takes the emptier card where it comes last", POLICY("spread"), SCORED(20, 1),
           SCORED(10, 0), "b;"),
    PICKED("on one NUMA node binpack takes the fuller card", POLICY("binpack") ", " ONE_NUMA,
           SCORED(10, 0), SCORED(20, 0), "b;"),
    PICKED("on one NUMA node spread takes the emptier card", POLICY("spread") ", " ONE_NUMA,
           SCORED(20, 0), SCORED(10, 0), "b;"),
    PICKED("mutex passes over a card with shares", POLICY("mutex"), CARD(2, 10, 0, 100, 0, 100),
           CARD(0, 10, 0, 100, 0, 100), "b;"),
    PICKED("mutex takes the card without shares where it comes first", POLICY("mutex"),
           CARD(0, 10, 0, 100, 0, 100), CARD(1, 10, 0, 100, 0, 100), "a;"),
    PICKED("numa, spread takes the emptier card of one NUMA node", POLICY("numa,spread"),
           SCORED(20, 0), SCORED(10, 0), "b;"),
    PICKED("spread, numa takes the emptier card of one NUMA node that all have to be on",
           POLICY("spread,numa") ", " ONE_NUMA, SCORED(20, 0), SCORED(10, 0), "b;"),
    PICKED("numa takes the card of the higher NUMA node, however full it is", POLICY("numa"),
           SCORED(5, 0), SCORED(99, 1), "b;"),
    PICKED("numa, spread takes the card of the higher NUMA node, however full it is",
           POLICY("numa,spread"), SCORED(5, 0), SCORED(99, 1), "b;"),
    PICKED("binpack, numa takes of cards that are equally full that of the higher NUMA node",
           POLICY("binpack,numa"), SCORED(15, 0), SCORED(15, 1), "b;"),
    PICKED("spread, numa takes of cards that are equally full that of the higher NUMA node",
           POLICY("spread,numa"), SCORED(15, 0), SCORED(15, 1), "b;"),
    {.name = "numa takes a card whose NUMA node is unknown last",
     .source = CHAIN,
     .wishes = POLICY("numa"),
     .cards = {SCORED(0, -1), SCORED(0, 0), SCORED(0, 1)},
     .order = true,
     .want = "cba"},
    PICKED("where no policy is about the order the emptier card is taken",
           POLICY("mutex,topology-aware"), SCORED(20, 0), SCORED(10, 0), "b;"),
    {.name = "topology-aware alone takes the emptier card where connections are unknown",
     .source = CHAIN,
     .wishes = POLICY("topology-aware"),
     .cards = {SCORED(20, 0), SCORED(10, 0)},
     .asks = {ASK_LITTLE},
     .want = "b;"},
    {.name = "topology-aware takes the emptiest of cards that are connected alike",
     .source = WORST,
     .wishes = POLICY("topology-aware"),
     .cards = {SCORED(20, 0), SCORED(30, 0), SCORED(10, 0)},
     .asks = {ASK_LITTLE},
     .pairs = unconnected,
     .want = "c;"},
    {.name = "topology-aware takes the emptiest two of cards that are connected alike",
     .source = "device/nvidia/device.go computeBestCombination",
     .wishes = POLICY("topology-aware"),
     .cards = {SCORED(30, 0), SCORED(20, 0), SCORED(10, 0)},
     .asks = {ASK(2, 1, 0)},
     .pairs = unconnected,
     .want = "bc;"},
    {.name = "blanks around policies do not count, nor do empty items",
     .source = "scheduler/policy/gpu_policy.go gpuSortKeyChain",
     .wishes = POLICY(" mutex,, binpack ,"),
     .cards = {SCORED(10, 0), SCORED(20, 0)},
     .asks = {ASK_LITTLE},
     .want = "b;"},
    {.name = "mutex says which cards may be taken, and nothing of their order",
     .source = LESS,
     .wishes = POLICY("mutex,spread"),
     .cards = {CARD(5, 100, 5, 100, 0, 100), CARD(0, 100, 20, 100, 0, 100)},
     .order = true,
     .want = "ab"},
    {.name = "mutex gives a card without shares",
     .source = "device/nvidia/device_test.go TestFit_MutexPolicy",
     .wishes = POLICY("mutex"),
     .cards = {CARD(1, 10, 0, 8192, 0, 100), CARD(0, 10, 0, 8192, 0, 100)},
     .asks = {ASK(1, 100, 10)},
     .want = "b;"},
    {.name = "mutex does not give two where one is without shares",
     .source = "device/nvidia/device_test.go TestFit_MutexPolicy",
     .wishes = POLICY("mutex"),
     .cards = {CARD(1, 10, 0, 8192, 0, 100), CARD(0, 10, 0, 8192, 0, 100)},
     .asks = {ASK(2, 100, 10)},
     .want = NONE},
    {.name = "a card that offers nothing is empty",
     .source = SCORE,
     .cards = {CARD(2, 10, 2048, 8192, 1, 4), CARD(0, 0, 0, 0, 0, 0)},
     .order = true,
     .want = "ba"},
    {.name = "a card that offers no shares is empty",
     .source = SCORE,
     .cards = {CARD(2, 10, 2048, 8192, 1, 4), CARD(0, 0, 0, 4096, 0, 8)},
     .order = true,
     .want = "ba"},

    /* Weights. */
    {.name = "shares, compute and memory count alike",
     .source = WEIGHTED ", scheduler/score_test.go TestCalcScoreUsesPodDeviceScoringWeights",
     .wishes = POLICY("binpack"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "a;"},
    {.name = "a weight of the memory makes another card the fullest",
     .source = WEIGHTED ", scheduler/score_test.go TestCalcScoreUsesPodDeviceScoringWeights",
     .wishes = POLICY("binpack") ", " WEIGHTS("slot=1,core=1,memory=3"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "b;"},
    {.name = "a weight of the memory makes another card the emptiest",
     .source = WEIGHTED,
     .wishes = POLICY("spread") ", " WEIGHTS("slot=1,core=1,memory=3"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "a;"},
    {.name = "a weight of the compute counts by itself",
     .source = WEIGHTED,
     .wishes = POLICY("binpack") ", " WEIGHTS("slot=1,core=3,memory=1"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "a;"},
    {.name = "blanks around weights and their names do not count",
     .source = PARSED,
     .wishes = POLICY("binpack") ", " WEIGHTS(" memory = 3, slot = 1, core = 0 "),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "b;"},
    {.name = "weights count where no policy is about the order",
     .source = CHAIN,
     .wishes = POLICY("topology-aware"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "b;"},
    {.name = "a weight of the memory makes another card the emptiest, without such a policy, too",
     .source = CHAIN,
     .wishes = POLICY("topology-aware") ", " WEIGHTS("slot=1,core=1,memory=3"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {ASK_PART(1, 40, 0)},
     .want = "a;"},
    {.name = "an init container gets the fullest card",
     .source = "scheduler/score_test.go TestCalcScoreUsesPodDeviceScoringWeightsForInitContainers",
     .wishes = POLICY("binpack"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {{.container = "init", .phase = FRACTION_INIT, .count = 1, .memory_percent = 40},
              ASK_NOTHING},
     .want = "a;;"},
    {.name = "weights hold for init containers, too",
     .source = "scheduler/score_test.go TestCalcScoreUsesPodDeviceScoringWeightsForInitContainers",
     .wishes = POLICY("binpack") ", " WEIGHTS("slot=1,core=1,memory=3"),
     .cards = {BUSY_CORES, BUSY_SHARES},
     .asks = {{.container = "init", .phase = FRACTION_INIT, .count = 1, .memory_percent = 40},
              ASK_NOTHING},
     .want = "b;;"},
    {.name = "a negative weight is refused",
     .source = PARSED ", scheduler/score_test.go TestCalcScoreRejectsInvalidDeviceScoringWeights",
     .wishes = WEIGHTS("slot=1,core=-1,memory=3"),
     .want = REFUSED},
    BAD_WEIGHTS("all three weights are needed", "slot=1,memory=3"),
    BAD_WEIGHTS("a weight has a value", "slot=1,core,memory=3"),
    BAD_WEIGHTS("a weight is a number", "slot=1,core=high,memory=3"),
    BAD_WEIGHTS("a weight of anything else is refused", "slot=1,bandwidth=2,memory=3"),
    BAD_WEIGHTS("a weight is given once", "slot=1,slot=2,memory=3"),

    /* Connections. */
    {.name = "as many cards as are asked for need no connections",
     .source = "device/nvidia/device_test.go TestFit_TopologyExactMatch",
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY},
     .asks = {ASK(2, 100, 10)},
     .want = "ab;"},
    {.name = "one share is on the card that is connected worst",
     .source = "device/nvidia/device_test.go TestFit_TopologyWorstSingleCard",
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY, EMPTY},
     .asks = {ASK(1, 100, 10)},
     .pairs = triangle,
     .want = "b;"},
    {.name = "connections with a card that does not fit do not count",
     .source = WORST,
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY, EMPTY, CARD(10, 10, 0, 8000, 0, 100)},
     .asks = {ASK(1, 100, 10)},
     .pairs = pair_of_two,
     .want = "c;"},
    {.name = "two shares are on the cards that are connected best",
     .source = "device/nvidia/device_test.go TestFit_TopologyBestCombination",
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY, EMPTY},
     .asks = {ASK(2, 100, 10)},
     .pairs = triangle,
     .want = "ac;"},
    {.name = "two shares are on two cards where none are connected (HAMi does not say on which)",
     .source = "device/nvidia/device_test.go TestFit_TopologyBestCombinationZeroScores",
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY, EMPTY},
     .asks = {ASK(2, 100, 10)},
     .pairs = unconnected,
     .want = "ab;"},
    {.name = "one share is on the worst of badly connected cards",
     .source = "device/nvidia/device_test.go TestFit_TopologyNegativeScores",
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY, EMPTY},
     .asks = {ASK(1, 100, 10)},
     .pairs = raised,
     .want = "a;"},
    {.name = "two shares are on the best of badly connected cards",
     .source = "device/nvidia/device_test.go TestFit_TopologyNegativeScores",
     .wishes = POLICY("topology-aware"),
     .cards = {EMPTY, EMPTY, EMPTY},
     .asks = {ASK(2, 100, 10)},
     .pairs = raised,
     .want = "bc;"},
    {.name = "three shares of six cards are around the one that is near two",
     .source = "scheduler/score_test.go Test_Nvidia_GPU_Topology",
     .wishes = POLICY("topology-aware"),
     .cards = {SIX},
     .asks = {ASK(3, 1024, 20)},
     .pairs = star,
     .want = "acf;"},
    {.name = "one share of six cards is on the one that is far from all",
     .source = "scheduler/score_test.go Test_Nvidia_GPU_Topology",
     .wishes = POLICY("topology-aware"),
     .cards = {SIX},
     .asks = {ASK(1, 1024, 20)},
     .pairs = outcast,
     .want = "f;"},

    /* Several containers, and several cards. */
    {.name = "a container gets the only card",
     .source = CALC,
     .cards = {EMPTY},
     .asks = {ASK(1, 1000, 30)},
     .want = "a;"},
    {.name = "a container gets half a card beside others",
     .source = CALC,
     .cards = {CARD(5, 10, 4000, 8000, 50, 100)},
     .asks = {ASK(1, 1000, 30)},
     .want = "a;"},
    {.name = "an init container that fits nowhere keeps the pod off the node",
     .source = CALC,
     .cards = {CARD(0, 10, 7500, 8000, 0, 100), CARD(0, 10, 7500, 8000, 0, 100)},
     .asks = {ASK_INIT(1, 4000, 30), ASK(1, 100, 30)},
     .want = NONE,
     .misfits = "2/2 CardInsufficientMemory"},
    {.name = "an init container that finds no compute keeps the pod off the node",
     .source = CALC,
     .cards = {CARD(0, 10, 0, 8000, 80, 100), CARD(0, 10, 0, 8000, 80, 100)},
     .asks = {ASK_INIT(1, 1000, 30), ASK(1, 1000, 10)},
     .want = NONE,
     .misfits = "2/2 CardInsufficientCore"},
    {.name = "without a policy the emptier card is taken",
     .source = CALC,
     .cards = {EMPTY, CARD(5, 10, 4000, 8000, 50, 100)},
     .asks = {ASK(1, 1000, 30)},
     .want = "a;"},
    {.name = "two shares are on two cards",
     .source = CALC,
     .cards = {EMPTY, EMPTY},
     .asks = {ASK(2, 1000, 30)},
     .want = "ab;"},
    {.name = "two shares are on two cards that have shares",
     .source = CALC,
     .cards = {CARD(5, 10, 4000, 8000, 50, 100), CARD(5, 10, 4000, 8000, 50, 100)},
     .asks = {ASK(2, 1000, 30)},
     .want = "ab;"},
    {.name = "a container that asks for nothing gets nothing",
     .source = CALC,
     .cards = {EMPTY},
     .asks = {ASK(1, 1000, 30), ASK_NOTHING},
     .want = "a;;"},
    {.name = "the second container may be the one that asks",
     .source = CALC,
     .cards = {EMPTY},
     .asks = {ASK_NOTHING, ASK(1, 1000, 30)},
     .want = ";a;"},
    {.name = "the middle container may be the one that asks",
     .source = CALC,
     .cards = {EMPTY},
     .asks = {ASK_NOTHING, ASK(1, 1000, 30), ASK_NOTHING},
     .want = ";a;;"},
    {.name = "a card that is too small for the pod is named",
     .source = CALC,
     .cards = {CARD(0, 10, 0, 50, 0, 100)},
     .asks = {ASK(1, 1000, 30)},
     .want = NONE,
     .misfits = "1/1 CardInsufficientMemory"},
    {.name = "the second init container may be the first that asks",
     .source = CALC,
     .cards = {EMPTY},
     .asks = {{.container = "none", .phase = FRACTION_INIT},
              ASK_INIT(1, 1000, 30),
              ASK(1, 1000, 30)},
     .want = ";a;a;"},
    {.name = "two containers share a card",
     .source = CALC,
     .cards = {EMPTY},
     .asks = {ASK(1, 1000, 30), ASK(1, 1000, 40)},
     .want = "a;a;"},
    {.name = "one of two cards that have shares takes one more (HAMi does not say which)",
     .source = "scheduler/score_test.go Test_fitInDevices",
     .cards = {QUARTER(1, 4, .numa = 1), QUARTER(1, 4, .numa = 1)},
     .asks = {ASK(1, 1024, 1)},
     .want = "a;"},
};

/* --- What differs on purpose --- */

#define TIES  "of equal cards HAMi takes that of the highest NUMA node and the last, here the first"
#define RUNS  "with numa-bind HAMi sorts by NUMA node first, here the policy alone says the order"
#define WORDS "HAMi counts the cards that fit as well, here only those that refuse are counted"

/* WORDS as partition/fraction_words.h says, all others as docs/adr/0042-shares-of-cards.md does. Those
 * whose source is no test are how HAMi's code reads. */
static const struct difference {
    const char *why, *hami; /* what HAMi gives, or its reason */
    struct fact here;
} differences[] = {
    {TIES,
     "b;",
     {.name = "one share, two empty cards",
      .source = FIT,
      .cards = {CARD(0, 100, 0, 128, 0, 100), CARD(0, 100, 0, 128, 0, 100)},
      .asks = {ASK(1, 64, 50)},
      .want = "a;"}},
    {TIES,
     "b;",
     {.name = "one share, two empty cards of a node",
      .source = CALC,
      .cards = {EMPTY, EMPTY},
      .asks = {ASK(1, 1000, 30)},
      .want = "a;"}},
    {TIES, "b;",
     PICKED("binpack, two cards that are equally full", POLICY("binpack"), SCORED(15, 0),
            SCORED(15, 1), "a;")},
    {TIES, "b;",
     PICKED("spread, two cards that are equally full", POLICY("spread"), SCORED(15, 0),
            SCORED(15, 1), "a;")},
    {TIES, "b;",
     PICKED("mutex, two cards without shares", POLICY("mutex"), SCORED(0, 0), SCORED(0, 1), "a;")},
    {TIES, "b;",
     PICKED("numa, two cards of one node", POLICY("numa"), SCORED(20, 0), SCORED(10, 0), "a;")},
    {TIES, "b;",
     PICKED("binpack, numa, two cards of one node that are equally full", POLICY("binpack,numa"),
            SCORED(10, 0), SCORED(10, 0), "a;")},
    {TIES,
     "b;a;",
     {.name = "spread, two containers that do not fit on one card",
      .source = CALC,
      .cards = {EMPTY, EMPTY},
      .asks = {ASK(1, 8000, 30), ASK(1, 1000, 30)},
      .want = "a;b;"}},
    {TIES,
     "b;b;",
     {.name = "an init container has ended when the app begins, which gets the same card",
      .source = CALC,
      .cards = {EMPTY, EMPTY},
      .asks = {ASK_INIT(1, 1000, 30), ASK(1, 1000, 30)},
      .want = "a;a;"}},
    {TIES,
     "ab;b;",
     {.name = "an init container may have more cards than the app",
      .source = CALC,
      .cards = {EMPTY, EMPTY},
      .asks = {ASK_INIT(2, 1000, 30), ASK(1, 1000, 30)},
      .want = "ab;a;"}},
    {WORDS,
     "1/1 AllocatedCardsInsufficientRequest",
     {.name = "two shares, one card",
      .source = FIT,
      .cards = {CARD(20, 100, 0, 1280, 10, 100)},
      .asks = {ASK(2, 512, 20)},
      .want = NONE,
      .misfits = ""}},
    {WORDS,
     "2/2 AllocatedCardsInsufficientRequest",
     {.name = "three shares, two cards",
      .source = FIT,
      .cards = {CARD(0, 100, 0, 1280, 0, 100), CARD(0, 100, 0, 1280, 0, 100)},
      .asks = {ASK(3, 512, 20)},
      .want = NONE,
      .misfits = ""}},
    {WORDS,
     "1/2 AllocatedCardsInsufficientRequest, 1/2 NumaNotFit",
     {.name = "two shares on one NUMA node, two nodes of one card each",
      .source = CERTAIN,
      .wishes = SAYS(HAMI_USE_MODEL, ANY) ", " ONE_NUMA,
      .cards = {QUARTER(1, 4, .numa = 0), QUARTER(1, 4, .numa = 1)},
      .asks = {ASK(2, 1024, 1)},
      .want = NONE,
      .misfits = ""}},
    {WORDS,
     "NodeInsufficientDevice",
     {.name = "two shares, a node of one card",
      .source = "scheduler/score_test.go Test_fitInDevices",
      .cards = {QUARTER(1, 4, .numa = 1)},
      .asks = {ASK(2, 1024, 1)},
      .want = NONE,
      .misfits = ""}},
    {"HAMi does not go back over a container that has its card",
     NONE,
     {.name = "spread, a container on the only card that has room for the next",
      .source = "scheduler/score.go allocateAppContainers",
      .cards = {CARD(1, 10, 6000, 8000, 10, 100), EMPTY},
      .asks = {ASK(1, 2000, 10), ASK(1, 7000, 10)},
      .want = "a;b;"}},
    {"HAMi takes a sidecar for an init container, which has ended when the app begins",
     "a;a;",
     {.name = "a sidecar and an app, each of more than half a card",
      .source = "scheduler/score.go allocateInitContainers",
      .cards = {EMPTY},
      .asks = {{.container = "sidecar", .phase = FRACTION_SIDECAR, .count = 1, .memory_mib = 5000},
               ASK(1, 5000, 0)},
      .want = NONE}},
    {"for HAMi cards whose NUMA node is unknown are on one",
     "ab;",
     {.name = "two shares on one NUMA node, two cards on unknown ones",
      .source = "device/nvidia/device.go Fit",
      .wishes = ONE_NUMA,
      .cards = {QUARTER(1, 4, .numa = -1), QUARTER(1, 4, .numa = -1)},
      .asks = {ASK(2, 1024, 1)},
      .want = NONE}},
    {RUNS, "b;",
     PICKED("numa-bind and spread, the emptier card is of the lower NUMA node",
            POLICY("spread") ", " ONE_NUMA, SCORED(5, 0), SCORED(99, 1), "a;")},
    {RUNS, "b;",
     PICKED("numa-bind and binpack, the fuller card is of the higher NUMA node",
            POLICY("binpack") ", " ONE_NUMA, SCORED(99, 1), SCORED(5, 0), "a;")},
    {"with numa-bind and topology-aware HAMi looks at the last NUMA node only",
     NONE,
     {.name = "two shares on one NUMA node, the lower has one card",
      .source = "device/nvidia/device.go Fit",
      .wishes = POLICY("topology-aware") ", " ONE_NUMA,
      .cards = {SCORED(0, 0), SCORED(0, 1), SCORED(0, 1)},
      .asks = {ASK(2, 1, 0)},
      .pairs = unconnected,
      .want = "bc;"}},
    {"for HAMi numa-bind is false where it is no truth value",
     "ab;",
     {.name = "numa-bind is no truth value",
      .source = "device/nvidia/device_test.go TestAssertNuma",
      .wishes = SAYS(HAMI_NUMA_BIND, "notabool"),
      .want = REFUSED}},
    {"HAMi counts what the container asks for as used",
     "b;",
     {.name = "spread, cards of two sizes",
      .source = SCORE,
      .cards = {CARD(1, 10, 2000, 8000, 0, 100), CARD(1, 10, 6000, 16000, 0, 100)},
      .asks = {ASK(1, 4000, 0)},
      .want = "a;"}},
    {"HAMi gives a share without memory",
     "a;",
     {.name = "one percent of 99 MiB",
      .source = "device/nvidia/device.go Fit",
      .cards = {CARD(0, 10, 0, 99, 0, 100)},
      .asks = {ASK_PART(1, 1, 10)},
      .want = NONE,
      .misfits = "1/1 CardInsufficientMemory"}},
    {"for HAMi a list without items allows nothing",
     NONE,
     {.name = "a comma for the models",
      .source = "device/devices.go CheckType",
      .wishes = SAYS(HAMI_USE_MODEL, ","),
      .want = REFUSED}},
    {"HAMi takes spread for a policy that it does not know",
     "a;",
     {.name = "a policy that is misspelt",
      .source = "scheduler/policy/gpu_policy.go Less",
      .wishes = POLICY("binpak"),
      .want = REFUSED}},
    {"HAMi takes spread for a policy that it does not know",
     "a;",
     {.name = "a comma for the policies",
      .source = "scheduler/policy/gpu_policy.go Less",
      .wishes = POLICY(","),
      .want = REFUSED}},
    {"HAMi takes spread for a policy that it does not know",
     "a;",
     {.name = "one policy with a blank before it",
      .source = "scheduler/policy/gpu_policy.go Less",
      .wishes = POLICY(" binpack"),
      .cards = {SCORED(10, 0), SCORED(20, 0)},
      .asks = {ASK_LITTLE},
      .want = "b;"}},
    {"HAMi takes weights of any size",
     "a;",
     {.name = "a weight beyond 1000",
      .source = "util/device_scoring_weights.go ParseDeviceScoringWeights",
      .wishes = WEIGHTS("slot=1,core=1,memory=1001"),
      .want = REFUSED}},
    {"HAMi refuses weights that are all 0", REFUSED,
     LISTED("no weight counts", PARSED, EMPTY, WEIGHTS("slot=0,core=0,memory=0"), .want = "a;")},
    {"HAMi refuses weights without a text", REFUSED,
     LISTED("an empty text for the weights", PARSED, EMPTY, WEIGHTS(""), .want = "a;")},
};

/* --- Both --- */

static const char *const letters[CARDS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};

/* A fact's cards and pod, as the planner takes them. */
struct town {
    struct fraction_card cards[CARDS];
    struct fraction_node node;
    struct fraction_pod pod;
};

static void town_init(struct town *t, const struct fact *f)
{
    *t = (struct town){.node = {.cards = t->cards, .pairs = f->pairs}, .pod = {.asks = f->asks}};
    for (; t->node.n < CARDS && f->cards[t->node.n].model; t->node.n++) {
        struct fraction_card *c = &t->cards[t->node.n];
        *c = f->cards[t->node.n];
        c->uuid = c->uuid ? c->uuid : letters[t->node.n];
    }
    while (t->pod.n < ASKS && f->asks[t->pod.n].container)
        t->pod.n++;
}

static json_t *pod_with(const char *annotations)
{
    json_t *pod = NULL;
    auto_free char *text =
        xasprintf("{\"metadata\": {\"annotations\": {%s}}}", annotations ? annotations : "");
    cr_assert_eq(jx_parse(text, strlen(text), 1 << 16, &pod, NULL), 0, "%s", text);
    return pod;
}

static void add_order(const struct town *t, struct sb *out)
{
    uint8_t order[FRACTION_MAX_CARDS];
    fraction_order(t->cards, t->node.n, &t->pod.wish, order);
    for (unsigned i = 0; i < t->node.n; i++)
        sb_add(out, letters[order[i]]);
}

/* "ab;c;" */
static void add_plan(const struct town *t, struct sb *out)
{
    struct fraction_plan plan;
    auto_err struct err e = {0};
    if (fraction_search(&t->node, &t->pod, &plan, &e) < 0) {
        sb_add(out, NONE);
        return;
    }
    for (unsigned k = 0; k < t->pod.n; k++) {
        for (unsigned i = 0; i < t->node.n; i++)
            if (memchr(plan.cards[k], (int)i, t->pod.asks[k].count))
                sb_add(out, letters[i]);
        sb_add_char(out, ';');
    }
}

/* What the planner makes of a fact: its cards, and why those of the first container refuse. */
struct outcome {
    char *cards, *misfits;
};

static void outcome_done(struct outcome *o)
{
    free(o->cards);
    free(o->misfits);
}

static struct outcome outcome_of(const struct fact *f)
{
    enum { TEXT_BYTES = 256 };
    auto_sb struct sb out = SB_INIT(TEXT_BYTES);
    auto_json json_t *pod = pod_with(f->wishes);
    auto_err struct err e = {0};
    struct hami_wish wish;
    struct town t;
    town_init(&t, f);
    if (hami_wish_of(pod, &wish, &e) < 0)
        return (struct outcome){xstrdup(REFUSED), xstrdup("")};
    t.pod.wish = wish.cards;
    if (f->order)
        add_order(&t, &out);
    else
        add_plan(&t, &out);
    return (struct outcome){sb_take(&out),
                            fraction_misfit_words(&t.node, &f->asks[0], &t.pod.wish)};
}

static void expect(const struct fact *f, const struct outcome *o)
{
    cr_expect_str_eq(o->cards, f->want, "%s (%s): %s, and not %s", f->name, f->source, o->cards,
                     f->want);
    if (f->misfits)
        cr_expect_str_eq(o->misfits, f->misfits, "%s (%s): %s", f->name, f->source, o->misfits);
}

Test(fraction_hami, what_its_tests_say_of_cards_holds_here)
{
    for (size_t i = 0; i < ARRAY_LEN(facts); i++) {
        struct outcome o = outcome_of(&facts[i]);
        expect(&facts[i], &o);
        outcome_done(&o);
    }
}

Test(fraction_hami, what_differs_on_purpose_differs_as_it_says)
{
    for (size_t i = 0; i < ARRAY_LEN(differences); i++) {
        const struct difference *d = &differences[i];
        struct outcome o = outcome_of(&d->here);
        expect(&d->here, &o);
        cr_expect(strcmp(d->hami, o.cards) != 0 && strcmp(d->hami, o.misfits) != 0,
                  "%s: no longer differs (%s)", d->here.name, d->why);
        outcome_done(&o);
    }
}
