"""What witnessed rounds promise beyond what others do, point by point, and the tests that hold each of them.

A test that is renamed or taken away is missed here, so that no promise loses its test unnoticed.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
ROUNDS, SEALING, RETURN = (
    "core/witnessed/test_rounds.py",
    "core/witnessed/test_sealing.py",
    "core/witnessed/test_return.py",
)
COMMITTEE, ATTESTATION = "core/witnessed/test_committee.py", "core/witnessed/test_attestation.py"
LIARS, FETCHING, MODELS = (
    "core/witnessed/test_liars.py", "core/witnessed/test_part_fetching.py", "core/witnessed/test_part_models.py",
)  # fmt: skip
ACCOUNT, EPOCHS, CHECKPOINT = (
    "core/witnessed/test_account.py", "core/witnessed/test_epochs.py", "core/witnessed/test_checkpoint.py",
)  # fmt: skip
DEATHS, COORDINATOR, MODEL = "sdk/test_member_deaths.py", "sdk/test_member_coordinator.py", "sdk/test_member_model.py"

POINTS: dict[str, dict[str, tuple[str, ...]]] = {
    "the quorum is a share of those elected, and the early advance needs no more than that": {
        COMMITTEE: ("test_a_quorum_is_the_share_rounded_up_and_exact",),
        ROUNDS: (
            "test_a_lost_witness_stays_elected_so_that_the_quorum_does_not_shrink",
            "test_training_ends_early_only_when_a_quorum_of_the_elected_attested_every_result",
        ),
        SEALING: ("test_a_quorum_of_those_elected_is_needed_also_when_all_who_are_left_attest",),
    },
    "each round keeps its roster": {
        ROUNDS: ("test_a_round_keeps_its_roster_and_nobodys_place_shifts_when_one_is_lost",),
    },
    "a lost member's batches go to others, and every batch is applied once or skipped with a reason": {
        ROUNDS: (
            "test_a_lost_members_work_goes_to_another_in_the_same_round_with_the_next_attempt",
            "test_without_time_enough_the_work_waits_for_the_next_round_and_goes_first_there",
        ),
        "core/witnessed/test_reopening.py": (
            "test_its_work_goes_to_another_at_once_and_the_round_ends_without_waiting_for_its_time",
        ),
        ACCOUNT: ("test_every_number_is_always_in_exactly_one_place",),
        EPOCHS: (
            "test_a_pause_lets_the_round_be_sealed_and_its_model_be_kept",
            "test_what_still_waits_when_the_run_is_over_is_skipped_with_that_reason",
        ),
        DEATHS: ("test_a_member_killed_costs_no_batch",),
    },
    "draws are fair: every order can come": {
        COMMITTEE: (
            "test_all_24_orders_of_four_members_occur_and_none_is_favoured",
            "test_over_many_rounds_everybody_is_a_witness_equally_often",
            "test_the_recorded_draws_come_out_again",
        ),
    },
    "attestations are exact bitmaps, or filters that are sized, salted and not saturated": {
        ATTESTATION: (
            "test_a_bitmap_says_exactly_what_was_put_in", "test_a_bitmap_is_smaller_than_any_filter",
            "test_a_filter_is_sized_from_the_number_of_results_for_its_rate",
            "test_filters_claim_too_much_no_more_often_than_their_rate",
            "test_filters_are_salted_by_round_and_witness",
            "test_a_saturated_filter_is_refused_and_no_honest_one_ever_is",
        ),
        ROUNDS: ("test_filters_attest_too_and_a_saturated_one_does_not",),
    },
    "what is applied is decided by the journal, and fetched from whoever attested it": {
        SEALING: ("test_sealed_is_what_a_quorum_holds_in_the_order_of_the_assignments",),
        MODELS: ("test_exactly_what_was_sealed_is_applied_in_that_order_and_once",),
        FETCHING: (
            "test_what_is_sealed_is_asked_of_those_who_attested_it",
            "test_who_alone_cannot_get_it_loads_a_later_model_when_it_may",
        ),
        LIARS: ("test_a_result_is_void_only_if_everybody_in_step_misses_it",),
    },
    "models are the same bit for bit, a minority catches up, without a majority the run rolls back": {
        "learn/witnessed/test_same_bits.py": (
            "test_the_model_is_the_one_that_was_recorded",
            "test_it_does_not_matter_how_many_threads_and_processes_there_are",
        ),
        "learn/witnessed/test_apply.py": ("test_the_optimizer_s_memory_is_part_of_the_model",),
        SEALING: (
            "test_who_says_nothing_when_it_is_late_has_to_catch_up",
            "test_without_a_majority_the_run_rolls_back_to_the_last_checkpoint_and_its_step",
        ),
        "learn/witnessed/test_manifest.py": ("test_a_tensor_with_one_wrong_bit_is_refused_by_its_name",),
        MODEL: (
            "test_a_tensor_that_a_holder_has_changed_is_not_believed_and_another_gives_it",
            "test_where_all_holders_give_a_changed_tensor_nothing_is_loaded_and_it_says_why",
        ),
    },
    "who lost the thread catches up in the same epoch": {
        RETURN: ("test_a_member_of_the_epoch_that_joins_again_catches_up_in_it",),
        DEATHS: (
            "test_a_member_killed_in_training_comes_back_into_the_same_epoch_with_its_key",
            "test_a_member_stopped_beyond_the_time_out_goes_on_in_the_same_epoch_and_process",
        ),
    },
    "state is pushed when it changes, and every message is acknowledged or refused by name": {
        "core/witnessed/test_collect.py": ("test_every_signal_is_acknowledged_or_refused_by_name",),
        "core/witnessed/test_views.py": (
            "test_a_round_costs_a_member_four_short_messages", "test_what_all_are_shown_is_made_once_after_each_change",
        ),
    },
    "a coordinator that is started again goes on with the round": {
        RETURN: (
            "test_a_coordinator_that_comes_back_goes_on_with_the_round",
            "test_in_every_phase_another_coordinator_goes_on",
            "test_a_coordinator_that_comes_back_waits_for_the_dead_no_longer_than_the_first_would_have",
        ),
        COORDINATOR: (
            "test_killed_while_it_waits_for_members", "test_killed_in_warm_up",
            "test_killed_in_training_it_goes_on_with_the_same_round_and_nothing_is_trained_twice",
            "test_killed_while_witnesses_are_awaited", "test_killed_in_cooldown",
        ),
    },
    "the slow get fewer batches, and the deadline follows what rounds take": {
        ROUNDS: (
            "test_the_slow_get_fewer_batches",
            "test_the_deadline_follows_what_rounds_take_between_floor_and_maximum",
            "test_a_deadline_that_does_not_adapt_is_the_maximum",
        ),
        MODEL: ("test_a_slow_member_is_given_fewer_batches",),
    },
    "the model is with the members, and never a newer step with older weights": {
        CHECKPOINT: ("test_if_later_no_holder_is_left_the_run_falls_back_to_the_last_stored_and_its_step",),
        MODEL: ("test_who_comes_late_waits_for_the_next_epoch_and_gets_the_model_from_the_others",),
    },
}  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
def test_every_point_has_its_tests(point: str) -> None:
    for file, names in POINTS[point].items():
        tree = ast.parse((TESTS / file).read_text())
        there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert set(names) <= there, f"{file} no longer holds: {point}"
