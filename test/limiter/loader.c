/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with CUDA, which it is linked with (-DLINKED), or opens as it is told:
 *
 *    loader NAME [local|global|deepbind]...
 *
 * Prints, where cuInit succeeds, what a card has, whether a piece too much and a small one may be
 * had, and where cuInit is from. Twice, as programs that do not believe an error call it again.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define MIB (1UL << 20)

#ifdef STATIC
enum { IS_STATIC = 1 };
#else
enum { IS_STATIC = 0 };
#endif

int cuInit(unsigned int flags);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes);

static struct {
    int (*init)(unsigned int);
    int (*total)(size_t *, int);
    int (*retain)(void **, int);
    int (*set)(void *);
    int (*alloc)(unsigned long long *, size_t);
} cu;

#ifdef LINKED
static void find(char **words)
{
    (void)words;
    cu.init = cuInit;
    cu.total = cuDeviceTotalMem_v2;
    cu.retain = cuDevicePrimaryCtxRetain;
    cu.set = cuCtxSetCurrent;
    cu.alloc = cuMemAlloc_v2;
}
#else
static int flag_of(const char *word)
{
    if (strcmp(word, "global") == 0)
        return RTLD_GLOBAL;
    return strcmp(word, "deepbind") == 0 ? RTLD_DEEPBIND : RTLD_LOCAL;
}

static void *function(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (found == NULL) {
        (void)printf("%s\n", dlerror());
        exit(2);
    }
    return found;
}

static void find(char **words)
{
    int flags = RTLD_NOW;
    for (char **word = words + 1; *words != NULL && *word != NULL; word++)
        flags |= flag_of(*word);
    void *library = dlopen(*words, flags);
    if (library == NULL) {
        (void)printf("%s\n", dlerror());
        exit(2);
    }
    cu.init = (int (*)(unsigned int))function(library, "cuInit");
    cu.total = (int (*)(size_t *, int))function(library, "cuDeviceTotalMem_v2");
    cu.retain = (int (*)(void **, int))function(library, "cuDevicePrimaryCtxRetain");
    cu.set = (int (*)(void *))function(library, "cuCtxSetCurrent");
    cu.alloc = (int (*)(unsigned long long *, size_t))function(library, "cuMemAlloc_v2");
}
#endif

static void try_pieces(size_t total)
{
    void *context = NULL;
    unsigned long long pointer = 0;
    if (cu.retain(&context, 0) != 0 || cu.set(context) != 0)
        return;
    int too_much = cu.alloc(&pointer, total + 1), small = cu.alloc(&pointer, 2 * MIB);
    (void)printf(" too much %d small %d", too_much, small);
}

/* With a context a library makes threads, which glibc gives to none that a static program opens. */
static void tell(void)
{
    size_t total = 0;
    int rc = cu.total(&total, 0);
    (void)printf("total %zu", total / MIB);
    if (rc == 0 && !IS_STATIC)
        try_pieces(total);
}

int main(int argc, char **argv)
{
    (void)argc;
    find(argv + 1);
    int first = cu.init(0), second = cu.init(0);
    (void)printf("init %d %d secure %lu ", first, second, getauxval(AT_SECURE));
    if (first == 0)
        tell();
    Dl_info info;
    if (!IS_STATIC)
        (void)printf(" from %s", dladdr((void *)cu.init, &info) != 0 ? info.dli_fname : "?");
    (void)printf("\n");
    return 0;
}
