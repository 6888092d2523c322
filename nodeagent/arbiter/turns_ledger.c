/* SPDX-License-Identifier: Apache-2.0 */
#include "nodeagent/arbiter/turns_ledger.h"

/* How long a turn is on the average: the first while up to FEW_CARDS are contended, the second while
 * many are. A claim's own turn is half to five halves of that, by its weight. */
#define QUANTUM      (20 * TURNS_MS)
#define QUANTUM_LONG (60 * TURNS_MS)
#define FEW_CARDS    5

/* Neither is kept beyond: a claim that had nothing for long does not get the card for as long, and
 * one whose kernel took a minute is not shut out for an hour. */
#define DEFICIT_MAX (1000 * TURNS_MS)
#define RETURN_MAX  (100 * TURNS_MS) /* of a claim that was idle */
#define CAP_WINDOW  (100 * TURNS_MS)
#define CAP_WINDOWS 100 /* that an overrun is made up for by waiting, at most */
#define CAP_LEAST   (1 * TURNS_MS)

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t clamp(int64_t v, int64_t least, int64_t most)
{
    return v < least ? least : min(v, most);
}

/* --- Caps --- */

bool ledger_is_capped(const struct claim *c)
{
    return c->spec.is_capped && c->spec.percent > 0 && c->spec.percent < 100;
}

static int64_t allowance(const struct claim *c)
{
    return CAP_WINDOW * c->spec.percent / 100;
}

/* A turn shorter than this is not worth giving. */
static int64_t least_left(const struct claim *c)
{
    return min(CAP_LEAST, allowance(c) / 2);
}

bool ledger_is_throttled(const struct claim *c)
{
    return ledger_is_capped(c) && allowance(c) - c->used < least_left(c);
}

/* The windows that must pass before enough is left: each takes one allowance off what was used. */
int64_t ledger_throttled_until(const struct claim *c)
{
    int64_t over = c->used - allowance(c) + least_left(c);
    return c->window + (over + allowance(c) - 1) / allowance(c) * CAP_WINDOW;
}

static void pass_windows(struct claim *c, int64_t now)
{
    int64_t n = (now - c->window) / CAP_WINDOW;
    if (n <= 0)
        return;
    c->window += n * CAP_WINDOW;
    c->used = n >= CAP_WINDOWS ? 0 : c->used - n * allowance(c);
    c->used = c->used < 0 ? 0 : c->used;
}

static void use(struct claim *c, int64_t time)
{
    c->used = min(c->used + time, CAP_WINDOWS * allowance(c));
}

/* --- Charges --- */

/* Something of it is on the card, as far as is known. */
static bool is_working(const struct claim *c, int64_t now)
{
    return c == c->card->holder || !member_set_is_empty(&c->owing) ||
           (now < c->strays && !member_set_is_empty(&c->late));
}

void ledger_watch(struct card *card, int64_t now)
{
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        c->is_working = is_working(c, now);
        c->is_stray = c != card->holder && member_set_is_empty(&c->owing);
    }
}

/* Up to when, of the time since the last charge, it worked. */
static int64_t worked_until(const struct claim *c, int64_t now)
{
    return c->is_stray ? min(now, c->strays) : now;
}

/* Time that was charged to one is due to all by their weights; the sum of the deficits stays. */
static void owe(struct card *card, const struct claim *to, int64_t time)
{
    unsigned class = to->spec.priority;
    int64_t left = time;
    int64_t weights = card->weights[class];
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->spec.priority != class || !c->is_running)
            continue;
        int64_t part = left * c->weight / weights;
        c->deficit += part;
        left -= part;
        weights -= c->weight;
    }
}

static void charge(struct card *card, struct claim *c, int64_t time)
{
    if (time <= 0)
        return;
    c->sums.held_ns += time;
    use(c, time);
    if (card->n_active < 2)
        return;
    owe(card, c, time);
    c->deficit -= time;
}

/* The deficits of those that compete have the mean 0, and the others stay as far from theirs: what
 * was charged to a claim that went idle is due to nobody. One alone competes with nobody. */
static void level(struct card *card, unsigned class)
{
    int64_t sum = 0, n = 0;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->spec.priority != class || !c->is_active)
            continue;
        sum += c->deficit;
        n++;
    }
    int64_t mean = n > 1 ? sum / n : 0;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->spec.priority == class)
            c->deficit = clamp(c->deficit - mean, -DEFICIT_MAX, DEFICIT_MAX);
    }
}

void ledger_charge(struct card *card, int64_t now)
{
    int64_t since = card->charged;
    if (now <= since)
        return;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->is_working)
            charge(card, c, worked_until(c, now) - since);
        else if (c->waiting != TURNS_NEVER)
            c->sums.throttled_ns += now - since;
    }
    for (unsigned class = 0; class < TURNS_CLASSES; class ++)
        level(card, class);
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        pass_windows(c, now);
    }
    card->charged = now;
}

/* --- Weights --- */

/* Those without a guarantee share what the others of their priority leave. */
static int64_t weight_of(const struct claim *c, int64_t percents, int64_t n_without)
{
    if (c->spec.percent > 0)
        return c->spec.percent;
    int64_t left = percents < 100 ? 100 - percents : 0;
    return left > n_without ? left / n_without : 1;
}

static void weigh(struct card *card, unsigned class)
{
    int64_t percents = 0, n_without = 0;
    card->n_running[class] = 0;
    card->weights[class] = 0;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->spec.priority != class)
            continue;
        c->is_running = c->is_active && !ledger_is_throttled(c);
        if (!c->is_running)
            continue;
        percents += c->spec.percent;
        n_without += c->spec.percent == 0;
        card->n_running[class]++;
    }
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        if (c->spec.priority != class || !c->is_running)
            continue;
        c->weight = weight_of(c, percents, n_without);
        card->weights[class] += c->weight;
    }
}

void ledger_weigh(struct card *card)
{
    card->n_active = 0;
    for (size_t i = 0; i < card->n; i++) {
        struct claim *c = card->claims[i];
        card->n_active += c->is_active;
    }
    for (unsigned class = 0; class < TURNS_CLASSES; class ++)
        weigh(card, class);
}

/* Its weight is that which it had when it was active last. */
void ledger_return(struct claim *c, int64_t now)
{
    int64_t seconds_max = 1000;
    int64_t away = min(now - c->idle, seconds_max * 1000 * TURNS_MS);
    int64_t faded = away / 100 * (c->weight > 0 ? c->weight : 1);
    if (c->deficit < 0)
        c->deficit = min(c->deficit + faded, 0);
    else
        c->deficit = min(c->deficit - min(faded, c->deficit), RETURN_MAX);
}

/* Each turn wakes two containers and the agent, which takes no more of a core for many cards if their
 * turns are longer. */
int64_t ledger_quantum(unsigned n_contended)
{
    return clamp(QUANTUM * n_contended / FEW_CARDS, QUANTUM, QUANTUM_LONG);
}

/* Turns of several cards end together, and wake the agent once. */
static int64_t nearest_tick(int64_t at, int64_t tick)
{
    return (at + tick / 2) / tick * tick;
}

int64_t ledger_ends(const struct claim *c, int64_t now)
{
    const struct card *card = c->card;
    unsigned class = c->spec.priority;
    int64_t mean = card->quantum;
    int64_t weights = card->weights[class] ? card->weights[class] : 1;
    int64_t time = mean * c->weight * card->n_running[class] / weights;
    int64_t ends = nearest_tick(now + clamp(time, mean / 2, mean * 5 / 2), mean / 2);
    return ledger_is_capped(c) ? min(ends, now + allowance(c) - c->used) : ends;
}
