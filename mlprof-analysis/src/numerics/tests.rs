use mlprof_events::NumberReader;
use mlprof_report::numerics::{
    RECORD_VERSION, RecordedTensorParts, Sketcher, StatisticsReader, TensorStatistics,
};

use super::*;

fn statistics(numbers: &[f32]) -> (TensorStatistics, Vec<Option<f64>>) {
    let mut reader = StatisticsReader::new(numbers.len() as u64);
    reader.read_f32(numbers);
    (reader.statistics(), reader.sample())
}

fn tensor(
    step: u64,
    role: TensorRole,
    name: &str,
    input: &[f32],
    numbers: &[f32],
) -> RecordedTensor {
    let (statistics_of, sample) = statistics(numbers);
    RecordedTensorParts {
        step,
        role,
        name: name.to_owned(),
        call: 0,
        thread: "main".to_owned(),
        source: None,
        element_type: "f32".to_owned(),
        shape: vec![numbers.len() as u64],
        statistics: statistics_of,
        input: (!input.is_empty()).then(|| statistics(input).0),
        sample,
        interval: None,
        location: None,
        sketch: Vec::new(),
        hash: None,
        not_finite_hash: None,
        is_rerun: false,
    }
    .build()
}

fn record(tensors: Vec<RecordedTensor>) -> NumericsRecord {
    let header = RecordHeader {
        numerics_version: RECORD_VERSION,
        stage: None,
        rank: 0,
        program: None,
        frameworks: Vec::new(),
        started_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
        seed: None,
        element_types: Vec::new(),
        machine: None,
        settings: Vec::new(),
    };
    NumericsRecord { header, tensors, is_cut_off: false }
}

/// Returns a record of three layers in two steps. In the second step, the second layer multiplies
/// its output by `factor`.
fn run(factor: f32, prefix: &str) -> NumericsRecord {
    let mut tensors = Vec::new();
    for step in 0..2 {
        let by = if step == 1 { factor } else { 1.0 };
        let named = |name: &str| format!("[module]{prefix}Linear: {name}");
        let (first, second, third) = ([1.0, -2.0], [3.0 * by, -4.0 * by], [5.0 * by, 6.0]);
        tensors.push(tensor(step, TensorRole::Output, &named("a"), &[0.5, 1.0], &first));
        tensors.push(tensor(step, TensorRole::Output, &named("b"), &first, &second));
        tensors.push(tensor(step, TensorRole::Output, &named("c"), &second, &third));
        tensors.push(tensor(step, TensorRole::Loss, "loss", &[], &[third[0]]));
    }
    record(tensors)
}

fn compared(before: &NumericsRecord, after: &NumericsRecord) -> NumericsComparison {
    compare(before, after, &[], &NumericsOptions::default())
}

#[test]
fn equal_runs_have_no_difference() {
    let same = compared(&run(1.0, ""), &run(1.0, "Other"));
    assert_eq!((same.pairs, same.different, same.steps, same.first.is_none()), (8, 0, 2, true));
    assert_eq!(same.unlike, Vec::<String>::new());
    let text = text(&same, 20);
    assert!(text.starts_with("8 tensors of 2 steps were compared. No difference.\n"), "{text}");
}

#[test]
fn the_first_place_whose_input_agrees_is_named() {
    let found = compared(&run(1.0, ""), &run(1.001, ""));
    let first = found.first.clone().expect("they differ");
    assert_eq!((first.step, &*first.name, first.inputs_agree), (1, "[module]Linear: b", true));
    assert!((first.distance.relative - 1e-3).abs() < 1e-5, "{first:?}");
    assert!((first.distance.sqnr.expect("decibels") - 60.0).abs() < 0.1, "{first:?}");
    assert!(first.distance.cosine.expect("a cosine") > 0.999_999);
    assert_eq!(found.different, 3, "and what is computed from it");
    let text = text(&found, 20);
    let beginning = "First difference: the output of [module]Linear: b in step 1, whose inputs agree: 1.0e-3 \
                     apart.\n";
    assert!(text.starts_with(beginning), "{text}");
    // The first step has no difference. In the second step, all values computed from the changed
    // output differ.
    let steps: Vec<_> = found.over_steps.iter().map(|step| (step.step, step.different)).collect();
    assert_eq!(steps, [(0, 0), (1, 3)]);
    assert!(text.contains("\nSteps\n"), "{text}");
    let place = found.places.iter().find(|place| place.name.ends_with(": b")).expect("a place");
    assert_eq!((place.first_step, place.worst_step, place.last), (Some(1), 1, place.worst));
    let (step, distance) = place.over_steps[1];
    assert_eq!((place.over_steps[0], step, distance), ((0, 0.0), 1, place.worst.relative));
    let page = html(&found);
    assert!(page.contains("First difference: the output of [module]Linear: b in step 1"), "{page}");
    assert!(page.contains("Distance of the runs by step") && page.contains("1.0e-3"), "{page}");
}

#[test]
fn a_place_more_on_one_side_leaves_the_others_their_partners() {
    let mut more = run(1.0, "");
    more.tensors.insert(1, tensor(0, TensorRole::Output, "[module]Dropout: d", &[], &[1.0]));
    let found = compared(&run(1.0, ""), &more);
    assert_eq!((found.pairs, found.only_before, found.only_after, found.different), (8, 0, 1, 0));
    let nothing = compared(&run(1.0, ""), &record(Vec::new()));
    assert_eq!((nothing.pairs, nothing.steps), (0, 0));
    assert!(text(&nothing, 20).starts_with("Nothing was compared"));
}

#[test]
fn names_of_the_other_side_are_translated() {
    let mut other = run(1.0, "");
    for tensor in &mut other.tensors {
        tensor.name = tensor.name.replace(": b", ": features.1");
    }
    assert_eq!(compared(&run(1.0, ""), &other).pairs, 6);
    let names = HashMap::from([("features.1".to_owned(), "b".to_owned())]);
    let options = NumericsOptions { names, tolerance: None };
    let found = compare(&run(1.0, ""), &other, &[], &options);
    assert_eq!((found.pairs, found.unused_names.len()), (8, 0));
}

#[test]
fn a_beginning_of_a_path_is_translated_with_all_below_it_and_the_longest_counts() {
    let parameters = |names: [&str; 3]| {
        record(names.map(|name| tensor(0, TensorRole::Parameter, name, &[], &[1.0, 2.0])).into())
    };
    let reference = parameters(["conv1.weight", "block.conv.bias", "head.weight"]);
    let other = parameters(["features.0.weight", "features.1.conv.bias", "head.weight"]);
    let pairs =
        [("features", "f"), ("features.0", "conv1"), ("features.1", "block"), ("feat", "x")];
    let names = pairs.map(|(own, name)| (own.to_owned(), name.to_owned())).into();
    let options = NumericsOptions { names, tolerance: None };
    let found = compare(&reference, &other, &[], &options);
    assert_eq!((found.pairs, found.only_after), (3, 0));
    assert_eq!(found.unused_names, ["feat", "features"], "said, and not silent");
    assert!(
        text(&found, 5).contains("Unused name mapping: the other record has no feat.\n"),
        "{}",
        text(&found, 5)
    );
}

/// Returns a record of two steps whose batches have these hashes.
fn batches(hashes: [&[&str]; 2]) -> NumericsRecord {
    let mut run = run(1.0, "");
    for (step, hashes) in hashes.into_iter().enumerate() {
        run.tensors.extend(hashes.iter().map(|hash| {
            RecordedTensorParts {
                hash: Some((*hash).to_owned()),
                ..tensor(step as u64, TensorRole::Batch, "batch", &[], &[1.0]).into()
            }
            .build()
        }));
    }
    run
}

#[test]
fn seeds_and_batches_are_compared_first() {
    let agreement = |one, other| compared(&batches(one), &batches(other)).batches;
    let same = agreement([&["a", "b"], &["c"]], [&["a", "b"], &["c"]]);
    assert_eq!((same.steps, same.different, same.first_different), (2, 0, None));
    // One side has hashes of inputs and labels, and the other side only has hashes of inputs.
    assert_eq!(agreement([&["a", "b"], &["c"]], [&["b"], &["c", "d"]]).different, 0);
    let other = agreement([&["a"], &["c", "c"]], [&["a"], &["c", "d"]]);
    assert_eq!((other.different, other.first_different), (1, Some(1)));
    assert_eq!(agreement([&[], &[]], [&["a"], &["c"]]).steps, 0);
    let (mut one, mut two) = (batches([&["a"], &["b"]]), batches([&["a"], &["x"]]));
    (one.header.seed, two.header.seed) = (Some(1), Some(2));
    let found = compared(&one, &two);
    let [seed, batch] = &found.unlike[..] else { panic!("{:?}", found.unlike) };
    assert_eq!(seed, "the seeds are 1 and 2");
    assert!(
        batch.starts_with("the batches differ in 1 of 2 steps, starting with step 1"),
        "{batch}"
    );
    let told = text(&found, 5);
    assert!(
        told.starts_with(
            "Different conditions: the seeds are 1 and 2.\nDifferent conditions: the batches"
        ),
        "{told}"
    );
    two.header.seed = Some(1);
    let alike = "Start conditions: both runs have seed 1; the batches differ in 1 of 2 steps.\n";
    assert!(text(&compared(&one, &two), 5).contains(alike));
    one.header.seed = None;
    let unknown = "Start conditions: at least one seed is unknown; ";
    assert!(text(&compared(&one, &two), 5).contains(unknown));
}

/// Checks the pairing of unique places in different orders, because frameworks order parameters
/// differently.
#[test]
fn places_that_are_there_once_are_found_in_any_order() {
    let of = |names: &[&str]| {
        let one = |name: &&str| tensor(0, TensorRole::Parameter, name, &[], &[1.0]);
        record(names.iter().map(one).collect())
    };
    let found = compared(&of(&["a", "b", "c", "d", "d"]), &of(&["d", "c", "b", "d", "a"]));
    assert_eq!((found.pairs, found.only_before), (5, 0));
    let order: Vec<_> = found.places.iter().map(|place| place.name.as_str()).collect();
    assert_eq!(order, ["a", "b", "c", "d"], "that of the reference");
}

/// Checks the alignment of steps with very different lengths and names.
#[test]
fn sequences_of_different_lengths_are_aligned() {
    let long = |count: u64, from: u64| {
        let name = |number| format!("layer{}", number % 97 + from);
        let outputs =
            (0..count).map(|number| tensor(0, TensorRole::Output, &name(number), &[], &[1.0]));
        record(outputs.collect())
    };
    let found = compared(&long(3000, 0), &long(1000, 0));
    assert_eq!((found.pairs, found.only_before, found.only_after), (1000, 2000, 0));
    let disjoint = compared(&long(3000, 0), &long(3000, 1000));
    assert_eq!((disjoint.pairs, disjoint.only_before, disjoint.only_after), (0, 3000, 3000));
}

#[test]
fn variation_between_reference_runs_is_not_a_difference() {
    let (reference, other) = (run(1.0, ""), run(1.001, ""));
    let again = [run(0.9995, "")];
    let options = NumericsOptions::default();
    assert_eq!(compare(&reference, &other, &again, &options).different, 0);
    let far = compare(&reference, &run(1.01, ""), &again, &options);
    assert_eq!((far.different, far.knows_noise), (3, true));
    let loose = NumericsOptions { tolerance: Some(0.01), ..options };
    assert_eq!(compare(&reference, &other, &[], &loose).different, 0);
}

#[test]
fn runs_that_began_differently_are_told_so() {
    let parameters = |number: f32| {
        let mut run = run(1.0, "");
        run.tensors.insert(0, tensor(0, TensorRole::Parameter, "a.weight", &[], &[number, 2.0]));
        run
    };
    let mut other = parameters(1.5);
    other.tensors[1].input = Some(statistics(&[7.0, 8.0]).0);
    let found = compared(&parameters(1.0), &other);
    let [seed, batch] = &found.unlike[..] else { panic!("{:?}", found.unlike) };
    assert!(seed.starts_with("1 parameters differ in the first common step"), "{seed}");
    assert!(batch.starts_with("the inputs of [module]Linear: a in step 0 are"), "{batch}");
    assert!(
        text(&found, 5).starts_with("Different conditions: 1 parameters"),
        "{}",
        text(&found, 5)
    );
}

#[test]
fn a_nan_on_one_side_is_as_far_as_can_be() {
    let mut other = run(1.0, "");
    other.tensors[3] = tensor(0, TensorRole::Loss, "loss", &[], &[f32::NAN]);
    let found = compared(&run(1.0, ""), &other);
    assert_eq!(found.first.expect("it differs").distance.relative, f64::INFINITY);
}

#[test]
fn distances_of_numbers_are_counted_in_those_between_them() {
    let next = f32::from_bits(1.0_f32.to_bits() + 3);
    let (one, other) = ([1.0, 0.0], [next, -0.0]);
    let place = |numbers: &[f32]| tensor(0, TensorRole::Output, "a", &[], numbers);
    let distance = Distance::of(&place(&one), &place(&other));
    assert_eq!(distance.most_ulps, Some(3));
    assert!(distance.relative < 1e-6 && distance.relative > 0.0);
    let signs = Distance::of(&place(&[f32::MIN_POSITIVE]), &place(&[-f32::MIN_POSITIVE]));
    assert_eq!(signs.most_ulps, Some(2 * u64::from(f32::MIN_POSITIVE.to_bits())));
}

#[test]
fn records_are_read_up_to_where_they_are_cut_off() {
    let record = run(1.0, "");
    let mut text = record.header.to_line().expect("a line");
    text.extend(record.tensors.iter().map(|tensor| tensor.to_line().expect("a line")));
    let whole = read(text.as_bytes()).expect("a record");
    assert_eq!((whole.tensors, whole.is_cut_off), (record.tensors.clone(), false));
    // The step in which the run was killed is removed completely.
    let cut = read(&text.as_bytes()[..text.len() - 10]).expect("a record");
    let steps = |record: &NumericsRecord| -> Vec<_> {
        record.tensors.iter().map(|tensor| tensor.step).collect()
    };
    assert_eq!((steps(&cut), cut.is_cut_off), (vec![0; 4], true));
    // The line of a new step shows that the previous steps are complete.
    let begun = read(format!("{text}{{\"step\":2,\"role\":\"out").as_bytes()).expect("a record");
    assert_eq!((begun.tensors.len(), begun.is_cut_off), (8, true));
    let mut letter = text.clone().into_bytes();
    letter.extend(b"{\"step\":2,\"name\":\"\xc3");
    assert_eq!(read(letter.as_slice()).expect("a record").tensors.len(), 8);
    let error = |text: &str| read(text.as_bytes()).expect_err("refused").to_string();
    assert!(error("").starts_with("the file is not a numerics record"), "{}", error(""));
    assert!(error("{\"traceEvents\":[]}\n").starts_with("the file is not a numerics record"));
    let newer = text.replace("\"numerics_version\":2", "\"numerics_version\":99");
    assert!(error(&newer).starts_with("a newer mlprof wrote the record"), "{}", error(&newer));
    let broken = text.replacen("\"step\":0", "\"step\":x", 2);
    assert!(
        error(&broken).starts_with("cannot parse line 2 of the numerics record"),
        "{}",
        error(&broken)
    );
}

/// Returns a record of one tensor.
fn alone(tensor: RecordedTensor) -> NumericsRecord {
    record(vec![tensor])
}

fn output(numbers: &[f32]) -> RecordedTensor {
    tensor(0, TensorRole::Output, "[module]Linear: fc", &[], numbers)
}

/// Returns a tensor with the sketch that a recorder computes, and with the given hash.
fn hashed(numbers: &[f32], hash: &str) -> RecordedTensor {
    let mut sketcher = Sketcher::default();
    sketcher.add(&numbers.iter().map(|number| f64::from(*number)).collect::<Vec<_>>());
    let hash = Some(hash.to_owned());
    RecordedTensorParts { hash, sketch: sketcher.sums(), ..output(numbers).into() }.build()
}

fn difference(before: RecordedTensor, after: RecordedTensor) -> Option<DifferenceKind> {
    let found = compared(&alone(before), &alone(after));
    assert_eq!(found.different == 1, found.first.is_some());
    found.first.map(|first| first.kind)
}

#[test]
fn other_shapes_are_a_difference_and_sides_of_one_are_named() {
    let shaped = |shape: &[u64], numbers: &[f32]| {
        RecordedTensorParts {
            shape: shape.to_vec(),
            hash: Some("a".to_owned()),
            ..output(numbers).into()
        }
        .build()
    };
    let numbers: Vec<f32> = (0..6).map(|number| number as f32).collect();
    for other in [&[3, 2][..], &[6], &[1, 6], &[2, 3, 1, 2]] {
        let found = compared(&alone(shaped(&[2, 3], &numbers)), &alone(shaped(other, &numbers)));
        assert_eq!(found.first.as_ref().map(|first| first.kind), Some(DifferenceKind::Shape));
        assert_eq!(found.places[0].worst.relative, f64::INFINITY);
        let shapes = format!("[2, 3] and {other:?}");
        let said = text(&found, 5);
        assert!(said.contains(&format!(": the shapes are {shapes}.\n")), "{said}");
        assert!(
            said.contains(&format!("\nDifferent shapes: [module]Linear: fc has {shapes}.\n")),
            "{said}"
        );
    }
    let found = compared(&alone(shaped(&[], &[2.5])), &alone(shaped(&[1, 1], &[2.5])));
    assert_eq!((found.different, found.identical), (0, 1));
    assert!(text(&found, 5).contains("Different shapes: [module]Linear: fc has [] and [1, 1].\n"));
    assert!(html(&found).contains("Different shapes: "));
}

#[test]
fn a_transposed_square_is_found_by_its_sketch() {
    let numbers: Vec<f32> = (0..64 * 64).map(|place| (place as f32 * 0.7).sin()).collect();
    let transposed: Vec<f32> = (0..64 * 64).map(|at| numbers[at % 64 * 64 + at / 64]).collect();
    let mut other = hashed(&transposed, "b");
    // The sample happens to have the same numbers.
    other.sample = output(&numbers).sample;
    assert_eq!(difference(hashed(&numbers, "a"), other), Some(DifferenceKind::Numbers));
}

#[test]
fn infinite_numbers_have_a_sign_and_positions() {
    let with = |place: usize, number: f32| {
        let mut numbers = [1.0_f32; 3];
        numbers[place] = number;
        numbers
    };
    let plain = |place, number| output(&with(place, number));
    let not_finite = Some(DifferenceKind::NotFinite);
    let (plus, minus) = (f32::INFINITY, f32::NEG_INFINITY);
    assert_eq!(difference(plain(1, plus), plain(1, minus)), not_finite);
    assert_eq!(difference(plain(0, plus), plain(2, plus)), not_finite);
    assert_eq!(difference(plain(0, f32::NAN), plain(2, f32::NAN)), not_finite);
    assert_eq!(difference(plain(0, f32::NAN), plain(0, plus)), not_finite);
    for number in [plus, minus, f32::NAN] {
        let same = compared(&alone(plain(1, number)), &alone(plain(1, number)));
        assert_eq!((same.different, same.identical), (0, 1), "{number}");
    }
    // A record of the first version has `null` for NaN and infinite numbers.
    let old = |number| {
        RecordedTensorParts { sample: vec![Some(1.0), None, Some(1.0)], ..plain(1, number).into() }
            .build()
    };
    let unknown = Some(DifferenceKind::UnknownNotFinite);
    assert_eq!(difference(old(plus), old(minus)), unknown);
    assert_eq!(difference(old(plus), plain(1, minus)), unknown);
    assert_eq!(difference(old(f32::NAN), plain(1, f32::NAN)), None);
    let said = text(&compared(&alone(old(plus)), &alone(old(plus))), 5);
    assert!(said.contains("the records do not show whether these are equal.\n"), "{said}");
}

#[test]
fn positions_outside_of_a_sample_are_known_by_a_hash_of_them() {
    let numbers = |place: usize| {
        let mut numbers = vec![1.0; 1000];
        numbers[place] = f32::NAN;
        numbers
    };
    let tensor = |place: usize, not_finite: Option<&str>, hash: &str| {
        RecordedTensorParts {
            not_finite_hash: not_finite.map(str::to_owned),
            ..hashed(&numbers(place), hash).into()
        }
        .build()
    };
    let not_finite = Some(DifferenceKind::NotFinite);
    let (at_5, at_7) = (tensor(5, Some("5"), "a"), tensor(7, Some("7"), "b"));
    assert_eq!(difference(at_5.clone(), at_7), not_finite);
    // The other numbers differ by rounding.
    let mut rounded = numbers(5);
    rounded[9] = 1.0 + f32::EPSILON;
    let rounded = RecordedTensorParts {
        not_finite_hash: Some("5".to_owned()),
        ..hashed(&rounded, "c").into()
    }
    .build();
    assert_eq!(difference(at_5.clone(), rounded), None);
    assert_eq!(difference(at_5, tensor(5, None, "a")), None, "the same hash");
    let unknown = Some(DifferenceKind::UnknownNotFinite);
    assert_eq!(difference(output(&numbers(5)), output(&numbers(7))), unknown);
    // If all numbers are NaN, their positions cannot differ.
    assert_eq!(difference(output(&[f32::NAN; 99]), output(&[f32::NAN; 99])), None);
}

#[test]
fn numbers_that_no_sample_has_are_compared() {
    let numbers: Vec<f32> = (0..3200).map(|place| (place as f32 * 0.37).sin()).collect();
    let hundredth = |by: f32| {
        let change = |(place, number): (usize, &f32)| match place % 100 {
            7 => number * by,
            _ => *number,
        };
        numbers.iter().enumerate().map(change).collect::<Vec<_>>()
    };
    let others = |by: f32| difference(hashed(&numbers, "a"), hashed(&hundredth(by), "b"));
    assert_eq!(output(&hundredth(-1.0)).sample, output(&numbers).sample);
    assert_eq!(others(-1.0), Some(DifferenceKind::Numbers));
    assert_eq!(others(1.01), Some(DifferenceKind::Numbers));
    assert_eq!(others(1.0 + 1e-6), None, "rounding");
    // A single changed number counts by its own size, even for a type with few digits.
    let half = |numbers: &[f32], hash| {
        RecordedTensorParts { element_type: "bf16".to_owned(), ..hashed(numbers, hash).into() }
            .build()
    };
    let mut single = numbers.clone();
    single[1234] = -single[1234];
    assert!(Distance::of(&half(&numbers, "a"), &half(&single, "b")).whole_l2 < Some(0.05));
    let found = difference(half(&numbers, "a"), half(&single, "b"));
    assert_eq!(found, Some(DifferenceKind::Numbers));
    // Without sketches, the distance is unknown.
    let bare = |numbers: &[f32], hash| {
        RecordedTensorParts { sketch: Vec::new(), ..hashed(numbers, hash).into() }.build()
    };
    let bare_difference = difference(bare(&numbers, "a"), bare(&hundredth(1.0 + 1e-6), "b"));
    assert_eq!(bare_difference, Some(DifferenceKind::Unsampled));
    let rounded: Vec<f32> = numbers.iter().map(|number| number * (1.0 + 1e-6)).collect();
    assert_eq!(difference(bare(&numbers, "a"), bare(&rounded, "b")), None, "all by rounding");
    // Without hashes, equality is not proven, and the text states this.
    let found = compared(&alone(output(&numbers)), &alone(output(&numbers)));
    assert_eq!((found.different, found.identical, found.unproven), (0, 0, 1));
    assert!(text(&found, 5).contains("Equality is unproven for 1 tensor: "));
    let found = compared(&alone(hashed(&numbers, "a")), &alone(hashed(&numbers, "a")));
    assert_eq!((found.different, found.identical, found.unproven), (0, 1, 0));
    assert!(text(&found, 5).contains("Bitwise equal: 1 tensor.\n"));
}

#[test]
fn types_have_their_own_tolerance() {
    let typed = |name: &str, numbers: &[f32]| {
        RecordedTensorParts { element_type: name.to_owned(), ..output(numbers).into() }.build()
    };
    let differ = |name: &str, one: f32, other: f32| {
        difference(typed(name, &[one]), typed(name, &[other])).is_some()
    };
    for name in ["i64", "u8", "bool", "int32"] {
        assert!(differ(name, 100_000.0, 100_001.0), "{name}");
        assert!(!differ(name, 7.0, 7.0), "{name}");
    }
    // The next number is within the tolerance, and the one after it is not.
    for (name, next, after_next) in [("f8e4m3", 1.125, 1.25), ("f8e5m2", 1.25, 1.5)] {
        assert!(!differ(name, 1.0, next), "{name}");
        assert!(differ(name, 1.0, after_next), "{name}");
    }
    assert!(differ("f32", 1.0, 1.125));
    let ulps = |name, other| Distance::of(&typed(name, &[1.0]), &typed(name, &[other])).most_ulps;
    assert_eq!((ulps("bf16", 1.0 + 1.0 / 128.0), ulps("i64", 4.0)), (Some(1), Some(3)));
    let mixed = Distance::of(&typed("f32", &[1.0]), &typed("f16", &[1.0 + 2.0 / 1024.0]));
    assert_eq!(mixed.most_ulps, Some(2), "of the coarser type");
    // The changed integer is outside the sample.
    let labels = |last: f32| {
        let mut numbers = vec![3.0; 5000];
        numbers[4999] = last;
        typed("i64", &numbers)
    };
    let hashed = |last, hash: &str| {
        RecordedTensorParts { hash: Some(hash.to_owned()), ..labels(last).into() }.build()
    };
    assert!(difference(hashed(3.0, "a"), hashed(2.0, "b")).is_some());
    assert!(difference(labels(3.0), labels(2.0)).is_some(), "by the smallest number");
}

#[test]
fn steps_of_one_side_are_named() {
    let steps = |numbers: &[u64]| {
        let one = |step: &u64| tensor(*step, TensorRole::Loss, "loss", &[], &[1.0]);
        record(numbers.iter().map(one).collect())
    };
    let found = compared(&steps(&[0, 1, 2, 3, 5]), &steps(&[0, 1, 9]));
    let span = |count, first, last| StepSpan { count, first: Some(first), last: Some(last) };
    assert_eq!((found.steps, found.steps_only_before), (2, span(3, 2, 5)));
    assert_eq!(found.steps_only_after, span(1, 9, 9));
    let said = text(&found, 5);
    let reference = "\nNot compared: 3 steps that only the reference has (2 to 5).\n";
    assert!(said.contains(reference), "{said}");
    let other = "\nNot compared: 1 step that only the other run has (9).\n";
    assert!(said.contains(other) && !found.is_equal(), "{said}");
    assert!(html(&found).contains("3 steps that only the reference has"));
    assert!(!compared(&steps(&[0, 1, 2]), &steps(&[0, 1])).is_equal());
    assert!(!compared(&steps(&[0, 1]), &steps(&[0, 1, 2])).is_equal());
    assert!(!compared(&steps(&[]), &steps(&[])).is_equal(), "nothing is proven");
    let same = compared(&steps(&[0, 1]), &steps(&[0, 1]));
    let said = text(&same, 5);
    assert!(!said.contains("Not compared") && same.is_equal(), "{said}");
}

#[test]
fn a_run_of_the_reference_with_nan_is_no_licence() {
    let of = |numbers: &[f32]| alone(output(numbers));
    let reference = of(&[1.0, 2.0]);
    let again = [of(&[f32::NAN, 2.0]), of(&[1.0, 2.002])];
    let options = NumericsOptions::default();
    let found = compare(&reference, &of(&[500.0, -900.0]), &again, &options);
    assert_eq!((found.different, found.unknown_noise), (1, 1));
    let said = text(&found, 5);
    assert!(said.contains("Noise is unknown in 1 place: "), "{said}");
    let within = compare(&reference, &of(&[1.0, 2.004]), &again, &options);
    assert_eq!((within.different, within.places[0].noise < 0.01), (0, true), "by the finite run");
    // The same holds if the reference itself has a NaN.
    let spoilt = of(&[f32::NAN, 2.0]);
    let found = compare(&spoilt, &of(&[f32::NAN, 3.0]), std::slice::from_ref(&reference), &options);
    assert_eq!(found.different, 1);
}

#[test]
fn numbers_whose_squares_are_too_large_are_compared() {
    let of = |numbers: &[f64]| {
        let mut reader = StatisticsReader::new(numbers.len() as u64);
        reader.read_f64(numbers);
        let statistics = reader.statistics();
        let element_type = "f64".to_owned();
        RecordedTensorParts {
            statistics,
            sample: reader.sample(),
            element_type,
            ..output(&[]).into()
        }
        .build()
    };
    let large = of(&[1e200, -1e200]);
    assert_eq!(large.statistics.l2_norm, f64::INFINITY);
    assert_eq!(difference(large.clone(), large.clone()), None);
    assert_eq!(difference(large.clone(), of(&[1e200, -3e200])), Some(DifferenceKind::Numbers));
    let line = large.to_line().expect("a line");
    assert_eq!(RecordedTensor::from_line(&line).expect("read back"), large);
}

/// Checks that reading a record of the first version drops the hash of an update, which was that of
/// the parameter after it.
#[test]
fn old_records_are_read() {
    let mut update = hashed(&[1.0; 40], "a");
    (update.role, update.sketch) = (TensorRole::Update, Vec::new());
    update.sample[3] = Some(f64::INFINITY);
    let mut old = record(vec![update.clone()]);
    let read_again = |record: &NumericsRecord| {
        let lines = record.header.to_line().expect("a line")
            + &record.tensors[0].to_line().expect("a line");
        read(lines.as_bytes()).expect("a record").tensors.remove(0)
    };
    assert_eq!(read_again(&old), update);
    old.header.numerics_version = 1;
    old.tensors[0].sample[3] = None;
    let was = read_again(&old);
    assert_eq!((was.hash, was.sample[3], was.sample[4]), (None, None, Some(1.0)));
}
