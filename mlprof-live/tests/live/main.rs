//! Tests a listening process with different clients. A process listens only once, so each scene
//! runs in its own process. The test program starts itself as the training, and then sends requests
//! to it.

#[cfg(target_os = "linux")]
mod asking;
#[cfg(all(target_os = "linux", feature = "capture"))]
mod capture;
#[cfg(all(target_os = "linux", feature = "capture"))]
mod capture_client;
#[cfg(all(target_os = "linux", feature = "otlp"))]
mod collector;
#[cfg(target_os = "linux")]
mod containers;
#[cfg(target_os = "linux")]
mod daemon;
#[cfg(target_os = "linux")]
mod doors;
#[cfg(target_os = "linux")]
mod dynolog;
#[cfg(target_os = "linux")]
mod following;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
mod program;
#[cfg(all(target_os = "linux", feature = "otlp"))]
mod pushing;
#[cfg(target_os = "linux")]
mod recordings;
#[cfg(target_os = "linux")]
mod sampled;
#[cfg(all(target_os = "linux", feature = "metrics"))]
mod scraping;

/// Name and function of a check.
#[cfg(target_os = "linux")]
type Check = (&'static str, fn());

#[cfg(all(target_os = "linux", feature = "capture"))]
const OF_CAPTURE: &[Check] = &capture::CHECKS;
#[cfg(all(target_os = "linux", not(feature = "capture")))]
const OF_CAPTURE: &[Check] = &[];
#[cfg(all(target_os = "linux", feature = "otlp"))]
const OF_OTLP: &[Check] = pushing::CHECKS;
#[cfg(all(target_os = "linux", not(feature = "otlp")))]
const OF_OTLP: &[Check] = &[];

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("live: signals and forks are looked at on Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    // The crate must be linked so that it registers itself.
    use mlprof_live as _;
    if std::env::var_os(program::SCENE).is_some() {
        return program::play();
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let checks: &[Check] = &[
        (
            "steps_are_recorded_beside_no_profiler",
            recordings::steps_are_recorded_beside_no_profiler,
        ),
        ("a_profiler_is_not_disturbed", recordings::a_profiler_is_not_disturbed),
        ("a_schedule_of_its_own_is_not_changed", recordings::a_schedule_of_its_own_is_not_changed),
        ("a_second_request_is_told_to_wait", recordings::a_second_request_is_told_to_wait),
        ("the_user_cancels_a_recording", recordings::the_user_cancels_a_recording),
        ("a_step_that_was_missed_is_said", recordings::a_step_that_was_missed_is_said),
        ("a_stage_that_ends_ends_the_recording", recordings::a_stage_that_ends_ends_the_recording),
        ("a_validation_is_not_recorded", recordings::a_validation_is_not_recorded),
        ("a_step_longer_than_the_request", recordings::a_step_longer_than_the_request),
        ("a_last_step_that_does_not_end", recordings::a_last_step_that_does_not_end),
        ("whole_steps_of_a_time", recordings::whole_steps_of_a_time),
        ("a_disconnect_cancels_the_recording", recordings::a_disconnect_cancels_the_recording),
        (
            "actions_are_counted_while_somebody_follows",
            following::actions_are_counted_while_somebody_follows,
        ),
        ("nothing_is_wanted_afterwards", following::nothing_is_wanted_afterwards),
        (
            "a_disconnected_follower_frees_its_place",
            following::a_disconnected_follower_frees_its_place,
        ),
        ("stacks_come_beside_the_trace", sampled::stacks_come_beside_the_trace),
        (
            "clients_get_the_reason_for_missing_samples",
            sampled::clients_get_the_reason_for_missing_samples,
        ),
        ("it_is_said_where_every_thread_is", sampled::it_is_said_where_every_thread_is),
        ("nothing_listens_unasked", doors::nothing_listens_unasked),
        ("a_session_listens_where_it_asks_to", doors::a_session_listens_where_it_asks_to),
        ("bad_requests_are_answered", doors::bad_requests_are_answered),
        ("so_many_may_ask_at_once", doors::so_many_may_ask_at_once),
        (
            "a_thousand_connections_do_not_hold_it_up",
            doors::a_thousand_connections_do_not_hold_it_up,
        ),
        (
            "a_process_that_is_killed_is_gone_for_its_watchers",
            doors::a_process_that_is_killed_is_gone_for_its_watchers,
        ),
        ("another_user_is_refused", doors::another_user_is_refused),
        ("a_signal_ends_it_as_ever", doors::a_signal_ends_it_as_ever),
        ("a_forked_child_has_a_socket_of_its_own", doors::a_forked_child_has_a_socket_of_its_own),
        (
            "a_socket_that_was_removed_is_made_again",
            places::a_socket_that_was_removed_is_made_again,
        ),
        (
            "the_socket_does_not_take_the_place_of_a_closed_stream",
            places::the_socket_does_not_take_the_place_of_a_closed_stream,
        ),
        ("the_next_folder_is_taken", places::the_next_folder_is_taken),
        ("a_folder_may_have_a_long_path", places::a_folder_may_have_a_long_path),
        ("it_is_said_why_no_folder_can_be_used", places::it_is_said_why_no_folder_can_be_used),
        (
            "a_program_that_closes_all_files_keeps_its_own",
            places::a_program_that_closes_all_files_keeps_its_own,
        ),
        ("containers_leave_each_others_sockets", containers::containers_leave_each_others_sockets),
        (
            "it_registers_and_asks_as_libkineto_does",
            dynolog::it_registers_and_asks_as_libkineto_does,
        ),
        ("steps_are_written_where_dyno_says", dynolog::steps_are_written_where_dyno_says),
        (
            "a_time_is_compressed_where_its_name_says_so",
            dynolog::a_time_is_compressed_where_its_name_says_so,
        ),
        (
            "a_daemon_may_come_late_talk_nonsense_and_be_started_anew",
            dynolog::a_daemon_may_come_late_talk_nonsense_and_be_started_anew,
        ),
        ("a_recording_is_written_at_process_exit", dynolog::a_recording_is_written_at_process_exit),
        ("paths_elsewhere_are_not_written_to", dynolog::paths_elsewhere_are_not_written_to),
        ("a_forked_child_registers_anew", dynolog::a_forked_child_registers_anew),
        ("libtorchs_client_says_the_same", dynolog::libtorchs_client_says_the_same),
        ("another_users_daemon_is_not_obeyed", dynolog::another_users_daemon_is_not_obeyed),
        ("the_user_cancels_an_order", dynolog::the_user_cancels_an_order),
        #[cfg(not(all(feature = "capture", feature = "metrics")))]
        ("ports_without_their_doors_are_said", doors::ports_without_their_doors_are_said),
        #[cfg(feature = "metrics")]
        ("a_training_is_scraped", scraping::a_training_is_scraped),
        #[cfg(feature = "metrics")]
        (
            "unauthorized_metrics_requests_are_rejected",
            scraping::unauthorized_metrics_requests_are_rejected,
        ),
        #[cfg(feature = "metrics")]
        (
            "a_thousand_who_ask_for_nothing_do_not_disturb",
            scraping::a_thousand_who_ask_for_nothing_do_not_disturb,
        ),
        #[cfg(feature = "metrics")]
        (
            "clients_without_a_token_keep_nobody_out",
            scraping::clients_without_a_token_keep_nobody_out,
        ),
        #[cfg(feature = "metrics")]
        (
            "a_token_that_was_removed_is_written_again",
            scraping::a_token_that_was_removed_is_written_again,
        ),
        #[cfg(feature = "metrics")]
        ("a_forked_child_has_no_metrics", scraping::a_forked_child_has_no_metrics),
        #[cfg(feature = "metrics")]
        ("a_token_can_be_ones_own_or_none", scraping::a_token_can_be_ones_own_or_none),
        #[cfg(feature = "metrics")]
        ("prometheus_reads_what_the_report_says", scraping::prometheus_reads_what_the_report_says),
        #[cfg(not(feature = "otlp"))]
        ("a_push_without_its_feature_is_said", doors::a_push_without_its_feature_is_said),
    ];
    for (name, check) in checks.iter().chain(OF_CAPTURE).chain(OF_OTLP) {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            println!("{name}");
            check();
        }
    }
}
