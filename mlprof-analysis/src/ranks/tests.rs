//! Tests of the multi-rank analysis.

use super::synthetic_trace::{SyntheticTrace, made};
use super::*;

fn step(data: i64) -> [(&'static str, i64); 5] {
    [
        ("train_dataloader_next", 1_000 + data),
        ("training_step", 10_000),
        ("backward", 20_000),
        ("all_reduce_gradients", 9_000 - data),
        ("optimizer_step", 3_000),
    ]
}

#[test]
fn the_rank_that_is_late_is_named_with_what_makes_it_late() {
    let usual = step(0);
    let late = step(8_000);
    let ranks: Vec<Trace> = (0..4)
        .map(|rank| {
            let of_rank = if rank == 2 { &late } else { &usual };
            let steps: Vec<&[(&str, i64)]> = (0..6).map(|_| &of_rank[..]).collect();
            made(SyntheticTrace { steps: &steps, ..SyntheticTrace::rank(rank) })
        })
        .collect();
    let traces = |ranks: &[usize], all: &[Trace]| -> Ranks {
        let facts = |rank: &usize| RankFacts::of(format!("r{rank}.json"), &all[*rank]);
        Ranks::of(&ranks.iter().map(facts).collect::<Vec<_>>()).expect("one of each")
    };
    let found = traces(&[3, 0, 2, 1], &ranks);
    assert_eq!(found.files.iter().map(|file| file.rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!((found.common_steps, found.length_ns, found.missing.len()), (6, 6 * 43_000, 0));
    assert_eq!(found.exposed.iter().map(|part| part.exposed_ns).sum::<i64>(), found.length_ns);
    assert_eq!(found.stragglers.len(), 1, "{:?}", found.stragglers);
    let straggler = &found.stragglers[0];
    assert_eq!((straggler.rank, straggler.stage.as_str()), (2, "waiting for data"));
    assert_eq!((straggler.stage_longer_ns, straggler.longer_ns), (8_000, 6 * 8_000));
    let text = found.text();
    assert!(text.contains("rank 2") && text.contains("waiting for data"), "{text}");
    // Without that rank, no rank is slow, and the rank is reported as missing.
    let others = traces(&[0, 1, 3], &ranks);
    assert_eq!((others.stragglers.len(), others.missing), (0, vec![2]));
}

#[test]
fn two_of_one_rank_are_an_error() {
    let (one, other) = (made(SyntheticTrace::rank(1)), made(SyntheticTrace::rank(1)));
    let traces = [RankFacts::of("a.json", &one), RankFacts::of("b.json", &other)];
    let error = Ranks::of(&traces).expect_err("both are rank 1");
    assert!(
        error
            .to_string()
            .contains("cannot combine a.json and b.json: both have the same cycle of rank 1"),
        "{error}"
    );
    assert!(matches!(Ranks::of(&[]), Err(Error::NoTraces)));
}

#[test]
fn ranks_without_steps_are_put_on_one_time_line_all_the_same() {
    let ends = [1_000, 2_000, 3_000];
    let (one, other) = (
        made(SyntheticTrace { ends: &ends, ..SyntheticTrace::rank(0) }),
        made(SyntheticTrace { ends: &ends, boot: "two", ..SyntheticTrace::rank(1) }),
    );
    let traces = [RankFacts::of("a.json", &one), RankFacts::of("b.json", &other)];
    let found = Ranks::of(&traces).expect("one of each");
    assert_eq!((found.common_steps, found.exposed.len(), found.stragglers.len()), (0, 0, 0));
    assert_eq!(found.files[1].offset.method, Method::Collectives);
    let text = found.text();
    assert!(text.contains("the ranks have no common steps"), "{text}");
}
