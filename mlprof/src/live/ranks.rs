//! Records all ranks of one training at the same steps.

use mlprof_events::error_chain::Chain;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mlprof_events::live::{RecordRequest, TrainingState};

use super::client::Client;
use super::listed::Listed;
use super::{Error, ProcessName, ps, table};

/// Lead time for the request to reach all ranks before the first recorded step.
const AHEAD: Duration = Duration::from_secs(1);

/// Maximum number of missing ranks that a note lists by number.
const NAMED: usize = 8;

/// Process of a training.
pub(super) struct Member {
    pub(super) rank: u32,
    pub(super) process: ProcessName,
    pub(super) client: Client,
    training: TrainingState,
}

/// Ranks that can be recorded, ordered by rank, and notes about the others.
pub(super) struct Group {
    pub(super) members: Vec<Member>,
    pub(super) notes: Vec<String>,
}

/// Returns the ranks of the training that a process belongs to. Returns `None` if the process
/// trains alone, or does not run exactly one training.
pub(super) fn group_of(process: ProcessName) -> Result<Option<Group>, Error> {
    let mut client = Client::connect(process)?;
    let own = Listed::answered(client.process(), ps::state(&mut client)?);
    let [training] = &own.state.trainings[..] else { return Ok(None) };
    if training.world_size < 2 {
        return Ok(None);
    }
    let (chosen, mut notes) = chosen(&own, training, &ps::answered()?);
    // All ranks are queried again, one directly after the other, so that their step numbers are
    // from nearly the same time.
    let mut members = Vec::new();
    for (rank, process) in chosen {
        match member(rank, process) {
            Ok(Some(member)) => members.push(member),
            Ok(None) => notes.push(format!(
                "rank {rank} (process {process}) is not recorded: it is between two stages"
            )),
            Err(error) => notes.push(format!("rank {rank} is not recorded: {}", Chain(&error))),
        }
    }
    Ok(Some(Group { members, notes }))
}

fn member(rank: u32, process: ProcessName) -> Result<Option<Member>, Error> {
    let mut client = Client::connect(process)?;
    let training = ps::state(&mut client)?.trainings.into_iter().next();
    Ok(training.map(|training| Member { rank, process, client, training }))
}

/// Returns the process of each rank, and notes that explain why other ranks are not recorded.
fn chosen(
    own: &Listed,
    training: &TrainingState,
    all: &[Listed],
) -> (BTreeMap<u32, ProcessName>, Vec<String>) {
    let (own_rank, world_size) = (training.rank, training.world_size);
    let mut by_rank: BTreeMap<u32, Vec<ProcessName>> = BTreeMap::from([(own_rank, vec![own.name])]);
    let mut notes = Vec::new();
    let is_other = |it: &&Listed| it.name != own.name && own.state.is_launched_with(&it.state);
    for other in all.iter().filter(is_other) {
        let [its] = &other.state.trainings[..] else { continue };
        // A second process with the own rank belongs to another training.
        if its.world_size != world_size || its.rank == own_rank || its.rank >= world_size {
            continue;
        }
        if its.stage == training.stage {
            by_rank.entry(its.rank).or_default().push(other.name);
        } else {
            let (rank, process, stage) = (its.rank, other.name, table::stage(its));
            notes.push(format!(
                "rank {rank} (process {process}) is not recorded: it is in another stage ({stage})"
            ));
            by_rank.entry(rank).or_default();
        }
    }
    let missing: Vec<u32> = (0..world_size).filter(|rank| !by_rank.contains_key(rank)).collect();
    notes.extend(missing_note(&missing, world_size));
    let mut one_each = BTreeMap::new();
    for (rank, processes) in by_rank {
        match processes[..] {
            [] => {}
            [process] => {
                one_each.insert(rank, process);
            }
            _ => notes.push(format!(
                "rank {rank} is not recorded: the processes [{}] all have this rank, and no \
                 variable such as MASTER_PORT distinguishes their trainings",
                processes.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", ")
            )),
        }
    }
    (one_each, notes)
}

fn missing_note(missing: &[u32], world_size: u32) -> Option<String> {
    let names: Vec<_> = missing.iter().take(NAMED).map(u32::to_string).collect();
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| {
        format!(
            "these of the {world_size} ranks are not recorded: {}{more}; they do not listen on \
             this machine, do not answer, run no stage, or have ended",
            names.join(", ")
        )
    })
}

impl Group {
    /// Returns the request that makes all ranks record the same steps, or the same time interval.
    pub(super) fn request(&self, wishes: RecordRequest) -> RecordRequest {
        if wishes.steps.is_none() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let start = u64::try_from((now + AHEAD).as_millis()).ok();
            return RecordRequest { start_milliseconds: start, ..wishes };
        }
        let first_step = Some(first_step(self.members.iter().map(|member| &member.training)));
        RecordRequest { first_step, exactly: true, ..wishes }
    }
}

/// Returns a future step number that all ranks can still reach in time. It leaves room for the
/// running step, for the warmup step, and for the steps during the lead time.
fn first_step<'training>(all: impl Iterator<Item = &'training TrainingState>) -> u64 {
    let (mut over, mut rate) = (0, 0.0_f64);
    for training in all {
        over = over.max(training.steps);
        rate = rate.max(training.steps_per_second().unwrap_or_default());
    }
    let ahead = (rate * AHEAD.as_secs_f64()).ceil().max(1.0);
    over.saturating_add(2).saturating_add(ahead as u64)
}

#[cfg(test)]
mod tests {
    use mlprof_events::Stage;
    use mlprof_events::live::ProcessState;

    use super::*;

    fn state(process: u32, rank: u32, port: &str) -> Listed {
        let training = TrainingState {
            stage: Some(Stage::Fit),
            rank,
            world_size: 4,
            epoch: None,
            epochs: None,
            steps: u64::from(rank) * 10,
            seconds: 1.0,
            is_paused: false,
            last_steps: vec![0.01 * f64::from(rank + 1)],
            epoch_step: None,
            epoch_steps: None,
            samples_per_second: None,
            waiting_for_data: None,
            loss: None,
        };
        let state = ProcessState {
            version: 1,
            process,
            namespace: None,
            program: "digits".into(),
            profilers: Vec::new(),
            is_recording: false,
            trainings: vec![training],
            memory: None,
            activity: None,
            parent: Some(1),
            launch: Some(format!("MASTER_PORT={port}")),
        };
        Listed::answered(process.into(), state)
    }

    fn chosen_of(all: &[Listed]) -> (Vec<(u32, u32)>, Vec<String>) {
        let (chosen, notes) = chosen(&all[0], &all[0].state.trainings[0], all);
        (chosen.into_iter().map(|(rank, process)| (rank, process.number)).collect(), notes)
    }

    #[test]
    fn ranks_of_one_training_are_found_and_others_are_said() {
        let mut all = vec![state(10, 1, "1"), state(11, 0, "1"), state(12, 2, "2")];
        let mut validates = state(13, 3, "1");
        validates.state.trainings[0].stage = Some(Stage::Validate);
        all.push(validates);
        let (found, notes) = chosen_of(&all);
        assert_eq!(found, [(0, 11), (1, 10)]);
        let [stage, missing] = &notes[..] else { panic!("{notes:?}") };
        assert!(stage.starts_with("rank 3 (process 13) is not recorded: it is in another stage"));
        assert!(missing.starts_with("these of the 4 ranks are not recorded: 2; "), "{missing}");
    }

    #[test]
    fn processes_with_the_same_rank_are_not_guessed() {
        let all = [state(10, 0, "1"), state(11, 0, "1"), state(12, 1, "1"), state(13, 1, "1")];
        let (found, notes) = chosen_of(&all);
        assert_eq!(found, [(0, 10)], "the one that was named is");
        assert!(
            notes.iter().any(|note| note.contains("the processes [12, 13] all have")),
            "{notes:?}"
        );
    }

    #[test]
    fn many_that_are_missing_are_counted() {
        let missing: Vec<u32> = (1..100).collect();
        let note = missing_note(&missing, 100).expect("a note");
        assert!(note.contains(": 1, 2, 3, 4, 5, 6, 7, 8 and 91 more; "), "{note}");
        assert_eq!(missing_note(&[], 2), None);
    }

    #[test]
    fn the_first_step_is_a_second_ahead_of_the_furthest() {
        let all = [state(1, 0, "1"), state(2, 3, "1")];
        let first = |all: &[Listed]| first_step(all.iter().map(|it| &it.state.trainings[0]));
        assert_eq!(first(&all), 30 + 2 + 100, "100 steps a second");
        let mut slow = all[1].clone();
        slow.state.trainings[0].last_steps = vec![60.0];
        assert_eq!(first(&[slow.clone()]), 33);
        slow.state.trainings[0].last_steps.clear();
        assert_eq!(first(&[slow]), 33);
    }
}
