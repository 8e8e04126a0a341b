//! A process that listens, and whoever asks it. A process listens once, so each scene is one of its own: without
//! arguments this program starts itself, looks in, and records.

#[cfg(target_os = "linux")]
mod asking;
#[cfg(all(target_os = "linux", feature = "capture"))]
mod capture;
#[cfg(target_os = "linux")]
mod doors;
#[cfg(target_os = "linux")]
mod program;
#[cfg(target_os = "linux")]
mod recordings;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("live: signals and forks are looked at on Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    // Linked, and so registered.
    use profiler_live as _;
    if std::env::var_os(program::SCENE).is_some() {
        return program::play();
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let checks: [(&str, fn()); 15] = [
        (
            "steps_are_recorded_beside_no_profiler",
            recordings::steps_are_recorded_beside_no_profiler,
        ),
        ("a_profiler_is_not_disturbed", recordings::a_profiler_is_not_disturbed),
        ("a_schedule_of_its_own_is_not_changed", recordings::a_schedule_of_its_own_is_not_changed),
        ("a_second_request_is_told_to_wait", recordings::a_second_request_is_told_to_wait),
        ("a_stage_that_ends_ends_the_recording", recordings::a_stage_that_ends_ends_the_recording),
        ("a_validation_is_not_recorded", recordings::a_validation_is_not_recorded),
        ("a_step_longer_than_the_request", recordings::a_step_longer_than_the_request),
        ("a_last_step_that_does_not_end", recordings::a_last_step_that_does_not_end),
        ("whole_steps_of_a_time", recordings::whole_steps_of_a_time),
        (
            "who_goes_away_takes_the_recording_along",
            recordings::who_goes_away_takes_the_recording_along,
        ),
        ("nothing_listens_unasked", doors::nothing_listens_unasked),
        ("bad_requests_are_answered", doors::bad_requests_are_answered),
        ("so_many_may_ask_at_once", doors::so_many_may_ask_at_once),
        ("a_signal_ends_it_as_ever", doors::a_signal_ends_it_as_ever),
        ("a_forked_child_has_a_socket_of_its_own", doors::a_forked_child_has_a_socket_of_its_own),
    ];
    #[cfg(feature = "capture")]
    let checks = checks.into_iter().chain(capture::CHECKS);
    #[cfg(not(feature = "capture"))]
    let checks = checks.into_iter().chain([(
        "a_port_without_its_door_is_said",
        doors::a_port_without_its_door_is_said as fn(),
    )]);
    for (name, check) in checks {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            println!("{name}");
            check();
        }
    }
}
