//! Tests `mlprof record` and `mlprof ps` with trainings in several processes. The test program
//! starts itself as each of the training processes.

#[cfg(unix)]
mod listed;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod recorded;

#[cfg(not(unix))]
fn main() {
    println!("ranks: trainings are looked into on Unix");
}

#[cfg(unix)]
fn main() {
    // The crate must be linked so that it registers itself.
    use mlprof_live as _;
    if std::env::var_os(program::PLAYS).is_some() {
        return program::play();
    }
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let checks: [(&str, fn()); 9] = [
        ("all_ranks_are_recorded_at_the_same_steps", recorded::all_at_the_same_steps),
        ("a_parent_is_enough_to_find_them", recorded::a_parent_is_enough),
        ("a_time_begins_for_all_of_them", recorded::a_time_begins_for_all),
        ("an_active_recording_is_named", recorded::an_active_recording_is_named),
        ("disconnected_ranks_are_reported", recorded::disconnected_ranks_are_reported),
        ("one_can_be_recorded_alone", recorded::one_alone),
        ("one_that_is_stopped_delays_nobody", listed::one_that_is_stopped),
        ("waiting_requests_are_cancelled", listed::waiting_requests_are_cancelled),
        ("processes_of_containers_are_told_apart", listed::processes_of_containers),
    ];
    for (name, check) in checks {
        if only.as_ref().is_none_or(|only| name.contains(only.as_str())) {
            println!("{name}");
            check();
        }
    }
}
