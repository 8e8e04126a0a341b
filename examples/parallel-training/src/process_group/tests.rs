use std::net::TcpListener;
use std::time::Instant;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

fn rank(rank: u32, world_size: u32) -> RunContext {
    RunContext::default().with_rank(rank, world_size)
}

/// Runs `body` on several ranks, each in a thread, connected by real sockets.
fn together<T: Send>(
    world_size: u32,
    patience: Duration,
    body: impl Fn(u32, ProcessGroup) -> T + Sync,
) -> Vec<T> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let meeting = Meeting { address: "127.0.0.1".to_owned(), port, patience };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..world_size)
            .map(|number| {
                let (body, meeting) = (&body, &meeting);
                scope.spawn(move || {
                    let run = rank(number, world_size);
                    body(number, ProcessGroup::join(&run, meeting).expect("joined"))
                })
            })
            .collect();
        let links = join::gather(&listener, world_size, patience).expect("all come");
        let root = ProcessGroup { world_size, links, is_root: true };
        let mut results = vec![body(0, root)];
        results.extend(others.into_iter().map(|other| other.join().expect("no panic")));
        results
    })
}

#[test]
fn means_are_right_and_the_same_on_every_rank() {
    let start = |rank: u32| -> Vec<f32> {
        (0..1000).map(|index| (index as f32 * 0.37 + rank as f32).sin() / 3.0).collect()
    };
    for world_size in [1, 2, 4] {
        let results = together(world_size, PATIENCE, |rank, mut group| {
            let mut values = start(rank);
            group.all_reduce_mean(&mut values).expect("averaged");
            values
        });
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        for values in &results {
            assert_eq!(bits(values), bits(&results[0]), "{world_size} ranks");
        }
        for (index, mean) in results[0].iter().enumerate() {
            let sum: f64 = (0..world_size).map(|rank| f64::from(start(rank)[index])).sum();
            let expected = sum / f64::from(world_size);
            assert!((f64::from(*mean) - expected).abs() < 1e-6, "{mean} is not {expected}");
        }
    }
}

#[test]
fn all_take_over_the_values_of_rank_0() {
    let results = together(3, PATIENCE, |rank, mut group| {
        let mut values = [rank as f32, 7.5];
        group.broadcast(&mut values).expect("taken over");
        values
    });
    assert_eq!(results, [[0.0, 7.5]; 3]);
}

#[test]
fn equal_results_are_confirmed_and_others_named_on_every_rank() {
    let results = together(3, PATIENCE, |_, mut group| group.check_equal(42));
    assert!(results.iter().all(Result::is_ok));
    let results =
        together(3, PATIENCE, |rank, mut group| group.check_equal(if rank == 2 { 1 } else { 42 }));
    for result in results {
        let error = result.expect_err("rank 2 differs").to_string();
        assert_eq!(
            error,
            "rank 2 has the result 0000000000000001, but rank 0 has 000000000000002a"
        );
    }
}

#[test]
fn a_rank_that_goes_away_is_named_by_rank_0_and_noticed_by_all() {
    let started = Instant::now();
    let results = together(3, PATIENCE, |rank, mut group| {
        let mut values = [1.0; 8];
        group.all_reduce_mean(&mut values).expect("all are there");
        if rank == 1 {
            return None; // this closes the connection
        }
        group.all_reduce_mean(&mut values).err().map(|error| error.to_string())
    });
    assert_eq!(results[0].as_deref(), Some("lost rank 1: it closed the connection"));
    assert_eq!(results[2].as_deref(), Some("lost rank 0: it closed the connection"));
    assert!(started.elapsed() < PATIENCE, "nobody waits for what cannot come");
}

#[test]
fn a_rank_that_hangs_is_given_up() {
    let patience = Duration::from_millis(300);
    let results = together(2, patience, |rank, mut group| {
        if rank == 1 {
            std::thread::sleep(4 * patience);
            return String::new();
        }
        let error = group.all_reduce_mean(&mut [1.0]).expect_err("rank 1 sends nothing");
        error.to_string()
    });
    assert_eq!(results[0], "lost rank 1: no answer within 300ms");
}

#[test]
fn ranks_that_do_different_things_are_told_apart() {
    let results = together(2, PATIENCE, |rank, mut group| match rank {
        0 => group.all_reduce_mean(&mut [1.0, 2.0]),
        _ => group.check_equal(1),
    });
    let error = results[0].as_ref().expect_err("out of step").to_string();
    assert!(error.contains("rank 1 is at comparing results"), "{error}");
    let results = together(2, PATIENCE, |rank, mut group| {
        group.all_reduce_mean(&mut vec![1.0; 2 + rank as usize])
    });
    let error = results[0].as_ref().expect_err("other sizes").to_string();
    assert!(
        error.contains("averaging (12 bytes), but this rank is at averaging (8 bytes)"),
        "{error}"
    );
}

#[test]
fn missing_ranks_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    // A process that sends an invalid greeting does not count as a rank.
    let mut stranger =
        TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    std::io::Write::write_all(&mut stranger, b"GET / HTTP/1.1\r\n\r\n").expect("written");
    let error = join::gather(&listener, 3, Duration::from_millis(200)).err().expect("nobody comes");
    let message = error.to_string();
    assert!(message.contains("rank 1, 2 did not connect within 200ms"), "{message}");

    let port = listener.local_addr().expect("bound").port();
    drop(listener);
    let meeting =
        Meeting { address: "127.0.0.1".to_owned(), port, patience: Duration::from_millis(200) };
    let error = ProcessGroup::join(&rank(1, 2), &meeting).expect_err("no rank 0");
    assert!(error.to_string().contains("rank 0 did not answer at 127.0.0.1:"), "{error}");
}

#[test]
fn where_to_meet_is_read_from_the_environment() {
    let meeting = |variables: &[(&str, &str)]| {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name);
        Meeting::from_variables(|name| find(name).map(|(_, value)| (*value).to_owned()), PATIENCE)
    };
    let both = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")];
    assert_eq!(meeting(&both).expect("valid").port, 29500);
    let torchrun = [both[0], both[1], ("TORCHELASTIC_USE_AGENT_STORE", "True")];
    assert_eq!(meeting(&torchrun).expect("valid").port, 29501);
    for wrong in
        [&both[..1], &both[1..], &[both[0], ("MASTER_PORT", "x")], &[both[0], ("MASTER_PORT", "0")]]
    {
        let error = meeting(wrong).expect_err("refused").to_string();
        assert!(error.contains("MASTER_"), "{error}");
    }
}
