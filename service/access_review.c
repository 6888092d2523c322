/* SPDX-License-Identifier: Apache-2.0 */
#include "service/access_review.h"

#include "base/jx.h"

static const struct kc_resource tokenreviews = {"authentication.k8s.io", "v1", "tokenreviews",
                                                "TokenReview", false};
static const struct kc_resource subjectaccessreviews = {"authorization.k8s.io", "v1",
                                                        "subjectaccessreviews",
                                                        "SubjectAccessReview", false};

json_t *access_review_token_body(const char *token)
{
    return json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "authentication.k8s.io/v1", "kind",
                     "TokenReview", "spec", "token", token);
}

json_t *access_review_subject_body(const json_t *user, const char *path)
{
    json_t *spec = json_deep_copy(user);
    (void)json_object_set_new(spec, "nonResourceAttributes",
                              json_pack("{s:s, s:s}", "path", path, "verb", "get"));
    return json_pack("{s:s, s:s, s:o}", "apiVersion", "authorization.k8s.io/v1", "kind",
                     "SubjectAccessReview", "spec", spec);
}

/* --- Answers --- */

static bool is_list_of_strings(const json_t *list)
{
    size_t i;
    const json_t *item;
    json_array_foreach(list, i, item)
        if (!json_is_string(item))
            return false;
    return json_is_array(list);
}

static bool is_map_of_lists(const json_t *map)
{
    const char *key;
    json_t *list;
    json_object_foreach((json_t *)(uintptr_t)map, key, list)
        if (!is_list_of_strings(list))
            return false;
    return json_is_object(map);
}

/* Copies one field of the user, if present. False: it has the wrong type. */
static bool carry(const json_t *user, const char *from, bool (*is_sound)(const json_t *),
                  json_t *spec, const char *to)
{
    json_t *value = json_object_get(user, from);
    if (!value || json_is_null(value))
        return true;
    return is_sound(value) && json_object_set(spec, to, value) == 0;
}

static bool is_string(const json_t *value)
{
    return json_is_string(value);
}

int access_review_read_token(const json_t *answer, json_t **ret_user, struct err *e)
{
    const json_t *authenticated = JX_AT(answer, "status", "authenticated");
    const json_t *user = JX_AT(answer, "status", "user");
    const char *name = json_string_value(json_object_get(user, "username"));
    auto_json json_t *spec = json_object();
    /* The API server omits fields that are false. */
    if (!json_is_object(json_object_get(answer, "status")) ||
        (authenticated && !json_is_boolean(authenticated)))
        return err_set(e, ERR_PROTOCOL, "a TokenReview without a status");
    if (!json_is_true(authenticated)) {
        *ret_user = NULL;
        return 0;
    }
    if (!name || !*name || !carry(user, "username", is_string, spec, "user") ||
        !carry(user, "uid", is_string, spec, "uid") ||
        !carry(user, "groups", is_list_of_strings, spec, "groups") ||
        !carry(user, "extra", is_map_of_lists, spec, "extra"))
        return err_set(e, ERR_PROTOCOL, "a TokenReview whose user cannot be read");
    *ret_user = TAKE(spec);
    return 0;
}

int access_review_read_subject(const json_t *answer, bool *ret_allowed, struct err *e)
{
    const json_t *allowed = JX_AT(answer, "status", "allowed");
    const json_t *denied = JX_AT(answer, "status", "denied");
    if (!json_is_boolean(allowed) || (denied && !json_is_boolean(denied)))
        return err_set(e, ERR_PROTOCOL, "a SubjectAccessReview without a status");
    *ret_allowed = json_is_true(allowed) && !json_is_true(denied);
    return 0;
}

/* --- Questions --- */

static int post(struct kc *kc, struct scope *s, const struct kc_resource *what, const json_t *body,
                json_t **ret, struct err *e)
{
    const struct kc_target t = {.res = what};
    const struct kc_write w = {.body = body};
    if (kc_create(kc, s, &t, &w, ret, e) < 0)
        return err_wrap(e, "create a %s", what->kind);
    return 0;
}

int access_review(struct kc *kc, struct scope *s, const char *token, const char *path,
                  bool *ret_authenticated, bool *ret_allowed, struct err *e)
{
    auto_json json_t *question = access_review_token_body(token);
    auto_json json_t *answer = NULL;
    auto_json json_t *user = NULL;
    bool allowed = false;
    TRY(post(kc, s, &tokenreviews, question, &answer, e));
    TRY(access_review_read_token(answer, &user, e));
    if (user) {
        auto_json json_t *right = access_review_subject_body(user, path);
        auto_json json_t *told = NULL;
        TRY(post(kc, s, &subjectaccessreviews, right, &told, e));
        TRY(access_review_read_subject(told, &allowed, e));
    }
    *ret_authenticated = user;
    *ret_allowed = allowed;
    return 0;
}
