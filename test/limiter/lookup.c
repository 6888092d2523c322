/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's functions by symbol, and by name and version, of the limiter and of the real library behind
 * it. Reads lines "symbol name version own|real", of all functions that the real library has, and
 * prints what is not as it should be: a symbol that is the limiter's or not against the line, and
 * every answer of cuGetProcAddress that is another code, status or symbol than the real one's.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCTIONS = 2000, ALL_FLAGS = 4 };

static struct {
    char symbol[80], name[80], whose[8];
    int version;
} functions[MAX_FUNCTIONS];
static int n_functions;

struct library {
    void *handle;
    int (*get)(const char *, void **, int, uint64_t);
    int (*get_v2)(const char *, void **, int, uint64_t, int *);
};

static struct library own, real;
static int answers;

static void load(struct library *l, const char *name)
{
    l->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (l->handle == NULL) {
        (void)printf("%s\n", dlerror());
        exit(2);
    }
    l->get = (int (*)(const char *, void **, int, uint64_t))dlsym(l->handle, "cuGetProcAddress");
    l->get_v2 = (int (*)(const char *, void **, int, uint64_t, int *))dlsym(l->handle,
                                                                            "cuGetProcAddress_v2");
}

/* The symbol of that library at this address, among those of a name. */
static const char *symbol_at(const struct library *l, const char *name, const void *at)
{
    for (int i = 0; at != NULL && i < n_functions; i++) {
        if (strcmp(functions[i].name, name) == 0 && dlsym(l->handle, functions[i].symbol) == at)
            return functions[i].symbol;
    }
    return at != NULL ? "?" : "none";
}

static void check_symbol(int i)
{
    const char *symbol = functions[i].symbol;
    void *ours = dlsym(own.handle, symbol), *theirs = dlsym(real.handle, symbol);
    const char *whose = ours == theirs ? "real" : "own";
    if (ours == NULL || theirs == NULL || strcmp(whose, functions[i].whose) != 0)
        (void)printf("%s: is %s's\n", symbol, ours != NULL ? whose : "nobody");
}

static void check_answer(const char *name, int version, uint64_t flags)
{
    void *ours = &own, *theirs = &own;
    int status = -1, real_status = -1;
    int rc = own.get_v2(name, &ours, version, flags, &status);
    int real_rc = real.get_v2(name, &theirs, version, flags, &real_status);
    answers++;
    if (rc == real_rc && rc != 0)
        return;
    const char *is = symbol_at(&own, name, ours), *should = symbol_at(&real, name, theirs);
    if (rc != real_rc || status != real_status || strcmp(is, should) != 0)
        (void)printf("%s, version %d, flags %d: code %d, status %d, %s; the real one: %d, %d, %s\n",
                     name, version, (int)flags, rc, status, is, real_rc, real_status, should);
    void *old = NULL, *real_old = NULL;
    rc = own.get(name, &old, version, flags);
    real_rc = real.get(name, &real_old, version, flags);
    if (rc != real_rc || (rc == 0 && old != ours))
        (void)printf("%s, version %d, flags %d: the first form differs\n", name, version,
                     (int)flags);
}

static void check_name(int i)
{
    static const int versions[] = {2000, 3020, 7000, 11020, 12000, 12090, 13000, 99990};
    for (uint64_t flags = 0; flags < ALL_FLAGS; flags++) {
        for (int step = -10; step <= 10; step += 10)
            check_answer(functions[i].name, functions[i].version + step, flags);
        for (size_t v = 0; v < sizeof(versions) / sizeof(versions[0]); v++)
            check_answer(functions[i].name, versions[v], flags);
    }
}

int main(void)
{
    load(&own, "libcuda.so.1");
    load(&real, "/usr/lib/cleave/real/libcuda.so.1");
    while (n_functions < MAX_FUNCTIONS &&
           scanf("%79s %79s %d %7s", functions[n_functions].symbol, functions[n_functions].name,
                 &functions[n_functions].version, functions[n_functions].whose) == 4)
        n_functions++;
    for (int i = 0; i < n_functions; i++) {
        check_symbol(i);
        check_name(i);
    }
    check_answer("cuNothing", 12000, 0);
    (void)fprintf(stderr, "%d answers", answers);
    return 0;
}
