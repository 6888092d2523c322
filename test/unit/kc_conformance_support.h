/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kubeclient/client.h"

/*
 * What a kc must do, whatever is behind it: each case runs on the fake (kc_conformance_test) and,
 * with CLEAVE_TEST_KUBECONFIG set, on the API server that this names
 * (test/e2e/test_conformance.py). The cases make what they need under names of their own and leave
 * nothing that another would meet.
 */
#define KC_CONFORMANCE_CASES(X)                                                                    \
    X(created_object_has_uid_version_and_generation)                                               \
    X(second_creation_says_exists)                                                                 \
    X(name_that_is_none_is_invalid)                                                                \
    X(label_that_is_none_is_invalid)                                                               \
    X(body_of_another_kind_is_invalid)                                                             \
    X(name_is_generated_from_a_prefix)                                                             \
    X(what_is_not_there_is_not_found)                                                              \
    X(update_with_a_stale_version_conflicts)                                                       \
    X(update_of_a_custom_resource_needs_a_version)                                                 \
    X(update_with_another_uid_conflicts)                                                           \
    X(update_that_changes_nothing_keeps_the_version)                                               \
    X(generation_counts_changes_of_spec_alone)                                                     \
    X(status_and_the_rest_are_written_apart)                                                       \
    X(merge_patch_sets_and_removes)                                                                \
    X(merge_patch_with_a_stale_version_conflicts)                                                  \
    X(merge_patch_with_another_uid_is_refused)                                                     \
    X(json_patch_tests_and_replaces)                                                               \
    X(apply_creates_and_repeats_without_a_write)                                                   \
    X(field_that_is_no_longer_applied_disappears)                                                  \
    X(field_of_another_manager_stays)                                                              \
    X(rival_manager_is_a_conflict_unless_forced)                                                   \
    X(shared_field_stays_until_both_drop_it)                                                       \
    X(list_map_is_merged_by_its_key)                                                               \
    X(status_is_applied_on_its_own)                                                                \
    X(status_of_a_node_is_applied_with_its_labels)                                                 \
    X(empty_map_can_be_filled_and_emptied)                                                         \
    X(apply_with_another_uid_is_refused)                                                           \
    X(removal_with_wrong_preconditions_conflicts)                                                  \
    X(finalizer_holds_an_object)                                                                   \
    X(labels_and_names_select)                                                                     \
    X(pages_add_up_to_the_list)                                                                    \
    X(long_answers_end_however_slowly_they_are_read)                                               \
    X(version_of_the_future_is_too_large)                                                          \
    X(watch_tells_changes_after_a_version)                                                         \
    X(watch_sees_objects_enter_and_leave_its_selector)                                             \
    X(watch_list_ends_the_initial_state_with_a_bookmark)                                           \
    X(watch_ends_cleanly_at_its_timeout)                                                           \
    X(eviction_wants_the_right_uid)                                                                \
    X(binding_assigns_a_pod_once_and_brings_annotations)                                           \
    X(lease_is_created_and_renewed_by_version)

struct kc_conformance {
    struct kc *kc;
    struct scope *s;
};

#define KC_CONFORMANCE_DECLARE(name) void kc_conformance_##name(struct kc_conformance *t);
KC_CONFORMANCE_CASES(KC_CONFORMANCE_DECLARE)
#undef KC_CONFORMANCE_DECLARE

/* Makes the custom resource "things" that the cases use, and waits until it is served. */
void kc_conformance_prepare(struct kc_conformance *t);

/* Its resource, for a fake's list keys: spec.parts is a list map by id. */
extern const struct kc_resource kc_conformance_things;
