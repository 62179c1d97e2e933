//! What every provider has to hold: one table of named checks, run over each back end.
//!
//! The checks know the contract alone. A [`Case`] says how a back end is made and broken; what jobs do is one table of commands
//! ([`acts`]), which a real back end executes and a scripted one is told. A gap is a failure, never a skip.
mod acts;
mod broken;
mod disk;
mod env;
mod gate;
mod holds;
mod jobs;
mod launch;
mod leftovers;
mod limits;
mod neutral;
mod output;
mod peer;
mod scene;
mod stops;
mod transfer;
mod verdict;

pub use acts::script;
pub use scene::{Case, HostClock, Place};
pub use verdict::{Group, Told};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// One promise and how it is tried.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name, a sentence.
    pub name: &'static str,
    /// What it belongs to.
    pub group: Group,
    run: fn(&dyn Case) -> Told,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}::{}", self.group.name(), self.name)
    }
}

impl Check {
    /// Tries it.
    ///
    /// # Errors
    /// What did not hold, in words; a panic is told like any other.
    pub fn run(&self, case: &dyn Case) -> Told {
        catch_unwind(AssertUnwindSafe(|| (self.run)(case))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("it panicked: {}", text.unwrap_or("without a text")))
        })
    }
}

/// Makes the rows of a group; a name is that of its function.
macro_rules! rows {
    ($group:ident, $module:ident: $($name:ident,)*) => {
        &[$(Check { name: stringify!($name), group: Group::$group, run: $module::$name },)*]
    };
}

/// The checks that the peer's own suite has, in its order, in our words.
const PEER: &[Check] = rows! { Peer, peer:
    a_provider_answers_through_the_trait,
    probe_is_typed_and_stable,
    create_makes_a_ready_workspace,
    create_refuses_a_duplicate,
    create_honours_the_network,
    inspect_says_the_same_twice,
    inspect_of_an_unknown_workspace_says_that_it_is_absent,
    what_describes_a_workspace_survives_json,
    run_success_says_what_was_printed,
    run_failure_is_never_infrastructure,
    run_of_an_absent_command_is_127,
    run_of_an_unrunnable_command_is_126,
    run_over_memory_is_resource_exhausted,
    run_ends_in_a_known_status,
    run_in_an_unknown_workspace_is_refused,
    run_of_several_jobs_leaves_the_workspace_ready,
    run_capture_is_capped_and_flagged,
    run_past_its_wall_clock_has_no_exit_status,
    run_in_a_broken_back_end_is_infrastructure,
    env_left_out_is_an_empty_env,
    env_is_in_nothing_that_is_returned,
    env_outlives_no_job,
    read_gives_the_exact_bytes,
    read_comes_in_bounded_chunks,
    read_that_is_abandoned_releases,
    read_of_a_missing_path_is_the_callers_mistake,
    read_in_an_unknown_workspace_is_refused,
    read_of_an_escaping_path_is_refused,
    read_in_a_broken_back_end_is_infrastructure,
    write_lands,
    write_takes_any_source,
    write_of_a_source_that_fails_is_refused,
    write_of_what_was_not_announced_is_refused,
    write_over_something_is_refused,
    write_overwrites_when_asked,
    write_of_an_escaping_path_is_refused,
    write_in_an_unknown_workspace_is_refused,
    stop_with_nothing_running_is_a_fact,
    stop_after_the_end_is_a_fact,
    stop_changes_no_state,
    stop_of_an_unknown_job_is_a_fact,
    stop_has_an_outcome_that_survives_json,
    remove_reports_what_it_did,
    remove_works_after_jobs,
    remove_leaves_nothing,
    nothing_that_leaves_names_the_back_end,
    every_field_is_written,
};

/// Every group of checks, in the order in which a table shows them.
const GROUPS: &[&[Check]] = &[
    PEER,
    rows! { Gate, gate:
        nothing_runs_before_the_gate_opens,
        a_job_is_alive_while_its_gate_opens,
        a_gate_that_fails_leaves_nothing_of_a_run,
        a_gate_that_fails_leaves_nothing_of_a_launch,
        a_gate_is_opened_once,
        what_cannot_be_prepared_never_meets_the_gate,
        a_job_id_is_taken_once,
    },
    rows! { Jobs, jobs:
        the_facts_of_an_outcome_add_up,
        a_signal_is_told_by_shell_convention,
        an_outcome_is_recovered_by_whoever_asks,
        an_outcome_waits_until_it_is_on_record,
        a_job_starts_in_the_directory_that_was_named,
        a_directory_that_is_not_there_is_refused,
        a_directory_behind_a_link_is_refused,
        standard_input_is_read_to_its_end,
        a_large_standard_input_arrives_whole,
        a_job_without_standard_input_reads_its_end,
        standard_input_that_is_not_there_is_refused,
        an_argument_need_not_be_text,
        an_argument_keeps_its_spaces_and_its_emptiness,
        an_id_may_be_as_odd_as_the_contract_allows,
        a_cancelled_caller_ends_its_job,
        a_plan_has_steps_and_makes_nothing,
        a_profile_is_known_or_refused,
    },
    rows! { Env, env:
        a_forwarded_variable_reaches_its_job,
        a_value_of_a_variable_lies_in_no_file,
    },
    rows! { Limits, limits:
        a_job_may_have_a_narrower_wall_clock,
        a_narrower_wall_clock_holds_for_one_job_only,
        a_launched_job_has_the_same_wall_clock,
        a_disk_that_is_over_its_budget_ends_the_job,
        a_job_within_its_limits_meets_none,
        every_limit_has_a_label,
        a_watched_limit_is_never_called_enforced,
    },
    rows! { Launch, launch:
        a_launched_job_goes_on_without_its_caller,
        a_launched_job_is_found_by_another_process,
        a_launched_job_holds_its_slot_to_its_end,
        what_a_launched_job_prints_and_leaves_is_there,
        nobody_is_given_the_output_of_a_launched_job,
        a_launched_failure_is_recovered_as_one,
        a_launch_that_is_refused_leaves_nothing,
        an_unknown_job_is_lost,
    },
    rows! { Holds, holds:
        a_slot_is_held_once,
        as_many_slots_are_held_as_there_are,
        all_slots_are_held_together_or_not_at_all,
        zero_slots_are_one,
        workspaces_are_held_apart,
        another_process_meets_the_same_hold,
        a_hold_in_an_unknown_workspace_is_refused,
        a_hold_is_free_as_soon_as_its_job_has_ended,
        as_many_jobs_run_at_once_as_there_are_slots,
    },
    rows! { Stops, stops:
        a_stopped_job_has_one_verdict_for_everybody,
        a_job_that_listens_ends_before_its_grace,
        a_job_that_does_not_listen_ends_with_its_grace,
        two_who_stop_a_job_agree,
        a_shorter_grace_counts,
        a_stop_that_is_cancelled_leaves_the_job,
        what_a_stopped_job_printed_is_kept,
        a_stopped_workspace_runs_the_next_job,
    },
    rows! { Output, output:
        kept_output_is_what_was_printed,
        a_range_is_those_bytes,
        a_range_beyond_the_end_is_empty,
        a_range_over_what_was_dropped_says_so,
        a_range_in_the_tail_is_found,
        head_and_tail_are_the_ends,
        head_and_tail_that_meet_are_all,
        a_flood_keeps_both_ends,
        the_digest_is_that_of_what_is_kept,
        a_budget_of_one_byte_keeps_the_last,
        each_stream_is_told_apart,
        a_stream_is_told_apart_once_the_job_has_ended,
        bytes_that_are_no_text_are_kept,
        a_job_that_prints_nothing_has_no_output,
        streaming_ends_with_its_sink,
        streaming_can_be_cancelled,
        following_gives_what_is_there_and_never_waits,
        following_goes_on_where_it_stopped,
        following_a_flood_says_what_was_dropped,
        following_ends_with_its_sink,
        output_is_given_live_in_order,
        a_live_sink_that_fails_ends_the_giving_and_not_the_job,
        output_outlives_its_workspace,
        kept_outputs_are_listed,
        discarded_output_is_gone,
        the_output_of_a_job_in_flight_is_not_discarded,
        discarding_twice_is_no_error,
    },
    rows! { Disk, disk:
        a_listing_is_in_the_order_of_bytes,
        a_listing_tells_files_directories_and_links_apart,
        a_listing_is_deep_only_when_asked,
        a_listing_that_is_cut_says_so,
        a_listing_that_fits_is_not_cut,
        a_listing_of_a_file_is_that_file,
        a_listing_follows_no_link,
        a_listing_of_what_is_not_there_is_refused,
        a_listing_in_an_unknown_workspace_is_refused,
        a_listing_can_be_cancelled,
        what_is_special_is_listed_and_never_read,
        a_name_need_not_be_text,
        a_directory_is_not_read,
        a_link_is_not_read,
        a_path_behind_a_link_is_not_read,
        reading_ends_with_its_sink,
        reading_stays_within_its_budget,
        reading_can_be_cancelled,
        reading_ends_at_its_deadline,
        an_empty_file_reads_as_nothing,
        what_is_on_a_disk_is_measured,
    },
    rows! { Transfer, transfer:
        a_batch_lands_whole,
        a_batch_keeps_modes_and_times,
        an_empty_directory_lands,
        a_link_lands_as_it_is,
        a_name_that_is_no_text_lands,
        bits_beyond_permissions_are_dropped,
        the_gate_opens_when_every_source_was_read,
        a_gate_that_fails_leaves_the_workspace_as_it_was,
        a_source_that_fails_leaves_the_workspace_as_it_was,
        one_entry_in_the_way_undoes_all,
        a_file_never_replaces_a_directory,
        a_directory_never_replaces_a_file,
        nothing_is_written_behind_a_link,
        overwriting_keeps_what_it_does_not_name,
        a_refused_overwrite_leaves_the_old_bytes,
        a_batch_over_its_budget_leaves_nothing,
        a_cancelled_batch_leaves_nothing,
        a_batch_after_its_deadline_leaves_nothing,
        an_empty_batch_changes_nothing,
        clearing_the_stage_changes_nothing,
    },
    rows! { Leftovers, leftovers:
        what_is_known_is_left,
        an_unused_workspace_is_removed,
        a_workspace_that_holds_something_is_named_and_left,
        what_is_young_is_left,
        what_is_held_is_left,
        a_job_in_flight_is_left,
        sweeping_an_unknown_job_is_no_error,
        sweeping_a_finished_job_keeps_its_output,
        removing_twice_is_no_error,
    },
    rows! { Broken, broken:
        a_broken_back_end_makes_nothing,
        a_broken_back_end_says_what_to_do,
        a_broken_disk_is_not_the_callers_mistake,
    },
];

/// Returns every check, in the order in which a table shows them.
#[must_use]
pub fn all() -> Vec<Check> {
    GROUPS.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_has_47_checks_and_every_name_is_taken_once() {
        assert_eq!(PEER.len(), 47);
        let mut names: Vec<_> = all().iter().map(|check| check.name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn a_panic_is_a_failure_with_its_words() {
        struct None;
        impl Case for None {
            fn name(&self) -> bailiwick_contract::provider::ProviderName {
                unreachable!("the check does not ask")
            }
            fn provider(
                &self,
                _: &scene::Place,
            ) -> Box<dyn bailiwick_contract::provider::Provider> {
                panic!("no provider for {}", "this")
            }
            fn broken(&self, _: &scene::Place) -> Box<dyn bailiwick_contract::provider::Provider> {
                panic!("no provider")
            }
            fn tree(&self, _: &scene::Place, _: &str) -> std::path::PathBuf {
                unreachable!("the check does not ask")
            }
        }
        let told = PEER[1].run(&None).expect_err("it panics");
        assert_eq!(told, "it panicked: no provider for this");
    }
}
