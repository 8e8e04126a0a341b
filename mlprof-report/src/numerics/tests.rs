use mlprof_events::NumberReader;

use super::*;

pub(crate) fn statistics(numbers: &[f32]) -> TensorStatistics {
    let mut reader = StatisticsReader::new(numbers.len() as u64);
    reader.read_f32(numbers);
    reader.statistics()
}

pub(crate) fn row(role: TensorRole, name: &str, tensors: &[&[f32]]) -> TensorRow {
    let all: Vec<_> = tensors.iter().map(|numbers| statistics(numbers)).collect();
    let together = all[1..].iter().fold(all[0], |sum, next| sum.merged(next));
    TensorRow {
        role,
        name: name.to_owned(),
        element_type: "f32".to_owned(),
        shape: vec![2, tensors[0].len() as u64 / 2],
        tensors: all.len() as u64,
        first: all[0],
        last: all[all.len() - 1],
        all: together,
    }
}

/// Builds the record of a module's output in step 12.
pub(crate) fn recorded(name: &str, numbers: &[f32]) -> RecordedTensor {
    RecordedTensor {
        step: 12,
        role: TensorRole::Output,
        name: name.to_owned(),
        call: 0,
        thread: "main".to_owned(),
        source: Some("src/net.rs:36".to_owned()),
        element_type: "f32".to_owned(),
        shape: vec![numbers.len() as u64],
        statistics: statistics(numbers),
        input: None,
        sample: Vec::new(),
        sketch: Vec::new(),
        not_finite_hash: None,
        interval: None,
        location: None,
        hash: None,
        is_rerun: false,
    }
}

#[test]
fn statistics_are_those_of_the_numbers_however_they_are_split() {
    let mut numbers: Vec<f32> = (0..1003).map(|number| (number as f32 * 0.37).sin()).collect();
    numbers[7] = f32::NAN;
    numbers[500] = f32::INFINITY;
    numbers[501] = f32::NEG_INFINITY;
    numbers[900] = 0.0;
    numbers[1002] = 1e-40;
    let whole = statistics(&numbers);
    let finite: Vec<f64> =
        numbers.iter().filter(|it| it.is_finite()).map(|it| f64::from(*it)).collect();
    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
    let deviation = finite.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / finite.len() as f64;
    assert_eq!((whole.count, whole.nans, whole.infinities), (1003, 1, 2));
    // The sine of 0 is also zero.
    assert_eq!((whole.zeros, whole.subnormals), (2, 1));
    assert_eq!(whole.least_magnitude, Some(f64::from(1e-40_f32)));
    let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-9, "{one}, {other}");
    close(whole.mean.expect("numbers"), mean);
    close(whole.standard_deviation.expect("numbers"), deviation.sqrt());
    close(whole.l1_norm, finite.iter().map(|it| it.abs()).sum());
    close(whole.l2_norm, finite.iter().map(|it| it * it).sum::<f64>().sqrt());
    close(whole.root_mean_square(), whole.l2_norm / (finite.len() as f64).sqrt());
    let (first, second) = numbers.split_at(333);
    let merged = statistics(first).merged(&statistics(second));
    assert_eq!((merged.zeros, merged.nans, merged.infinities), (2, 1, 2));
    assert_eq!((merged.minimum, merged.maximum), (whole.minimum, whole.maximum));
    close(merged.mean.expect("numbers"), mean);
    close(merged.standard_deviation.expect("numbers"), deviation.sqrt());
    let mut each = StatisticsReader::new(1003);
    each.read_each(&mut numbers.iter().map(|it| f64::from(*it)), f32::MIN_POSITIVE.into());
    assert_eq!(each.statistics().subnormals, 1);
    close(each.statistics().l2_norm, whole.l2_norm);
}

#[test]
fn nothing_and_nothing_finite_have_no_extremes() {
    for numbers in [&[][..], &[f32::NAN; 20]] {
        let statistics = statistics(numbers);
        assert_eq!((statistics.minimum, statistics.mean, statistics.finite()), (None, None, 0));
        assert_eq!((statistics.dynamic_range(), statistics.root_mean_square()), (None, 0.0));
        let one = super::tests::statistics(&[1.0]);
        assert_eq!(
            (one.merged(&statistics).maximum, one.merged(&statistics).mean),
            (Some(1.0), Some(1.0))
        );
    }
    assert_eq!(statistics(&[0.25, -4.0, 0.0]).dynamic_range(), Some(4.0));
}

#[test]
fn a_sample_is_spread_over_all_pieces() {
    let mut reader = StatisticsReader::new(320);
    for piece in (0..320).map(|number| number as f32).collect::<Vec<_>>().chunks(7) {
        reader.read_f32(piece);
    }
    let expected: Vec<_> = (0..32).map(|number| Some(f64::from(number * 10))).collect();
    assert_eq!(reader.sample(), expected);
    let mut few = StatisticsReader::new(3);
    few.read_f64(&[1.0, f64::NAN, 3.0]);
    assert_eq!(few.sample(), [Some(1.0), None, Some(3.0)]);
}

/// Checks that small updates of 16-bit parameters are not reported. An update is a difference and
/// is not stored with 16 bits.
#[test]
fn small_updates_of_16_bit_parameters_lose_no_digits() {
    let small = |role| {
        let mut row = row(role, "a", &[&[1e-3; 4], &[1e-3; 4]]);
        row.element_type = "f16".to_owned();
        row.all.subnormals = row.all.count;
        row
    };
    let parameter = row(TensorRole::Parameter, "a", &[&[1.0; 4], &[1.0; 4]]);
    assert_eq!(troubles(&[parameter, small(TensorRole::Update)]), []);
    assert_eq!(troubles(&[small(TensorRole::Output)])[0].kind, TroubleKind::LostPrecision);
}

#[test]
fn infinite_numbers_of_a_sample_keep_their_sign() {
    let numbers = [1.0, f32::NEG_INFINITY, f32::NAN, f32::INFINITY];
    let mut reader = StatisticsReader::new(4);
    reader.read_f32(&numbers);
    let tensor = RecordedTensor { sample: reader.sample(), ..recorded("layer", &numbers) };
    let line = tensor.to_line().expect("JSON");
    assert!(line.contains(r#""sample":[1.0,"-inf",null,"inf"]"#), "{line}");
    assert_eq!(RecordedTensor::from_line(&line).expect("read back"), tensor);
}

#[test]
fn troubles_are_found_and_healthy_tensors_have_none() {
    let healthy = [
        row(TensorRole::Output, "layer", &[&[0.5; 32], &[-0.5; 32]]),
        row(TensorRole::Gradient, "a", &[&[1e-3; 4], &[2e-3; 4]]),
        row(TensorRole::Gradient, "b", &[&[1e-2; 4], &[2e-2; 4]]),
        row(TensorRole::Parameter, "a", &[&[1.0; 4], &[1.0; 4]]),
        row(TensorRole::Update, "a", &[&[1e-3; 4], &[1e-3; 4]]),
    ];
    assert_eq!(troubles(&healthy), []);
    let mut half = row(TensorRole::Output, "narrow", &[&[40_000.0, 1.0], &[1.0, 2.0]]);
    half.element_type = "f16".to_owned();
    let bad = [
        (
            row(TensorRole::Gradient, "grown", &[&[1.0; 4], &[1e3; 4]]),
            TroubleKind::ExplodingGradient,
        ),
        (
            row(TensorRole::Gradient, "gone", &[&[0.0; 4], &[0.0; 4]]),
            TroubleKind::VanishingGradient,
        ),
        (row(TensorRole::Output, "dead", &[&[0.0; 32], &[0.0; 32]]), TroubleKind::DeadActivation),
        (row(TensorRole::Update, "a", &[&[1e-9; 4], &[1e-9; 4]]), TroubleKind::SmallUpdate),
        (half, TroubleKind::LostPrecision),
    ];
    for (row, kind) in bad {
        let rows = [&healthy[..4], std::slice::from_ref(&row)].concat();
        let found = troubles(&rows);
        let [trouble] = &found[..] else { panic!("{kind:?}: {found:?}") };
        assert_eq!((trouble.kind, &trouble.name), (kind, &row.name));
    }
    // Other rules report values that are not finite. The remaining finite values must not count as
    // small.
    for (role, name) in [(TensorRole::Gradient, "a"), (TensorRole::Update, "a")] {
        let spoilt = row(role, name, &[&[1e-3; 4], &[f32::NAN; 4]]);
        let rows = [&healthy[2..4], &[spoilt]].concat();
        assert_eq!(troubles(&rows), []);
    }
    // A single step only shows the initial state of the training.
    assert_eq!(troubles(&[row(TensorRole::Output, "dead", &[&[0.0; 32]])]), []);
}

#[test]
fn the_report_says_what_was_first_and_has_a_row_for_each_place() {
    let tensor = RecordedTensor {
        input: Some(statistics(&[-1.0, 2.0])),
        location: Some("src/net.rs:7".to_owned()),
        ..recorded("[module]Linear: head\u{202e}", &[f32::NAN, 1.0])
    };
    let again = recorded("[module]Linear: first", &[f32::INFINITY]);
    let mut report = NumericsReport {
        first_not_finite: Some(tensor),
        first_op_not_finite: None,
        not_finite: 7,
        rerun: Some(Box::new(Rerun {
            step: 12,
            tensors: 5,
            first_not_finite: Some(again),
            failure: None,
        })),
        files: vec!["fit.numerics.jsonl".to_owned(), "fit.numerics.safetensors".to_owned()],
        ..crate::findings::samples::numbers(vec![row(
            TensorRole::Output,
            "dead",
            &[&[0.0; 32], &[0.0; 32]],
        )])
    };
    let text = paint(&report);
    let first = "Not finite  in step 12 the output of [module]Linear: head\\u{202e} is not finite: 1 NaN of 2 numbers. Its \
                 input was finite, from -1.000 to 2.000. It was called at src/net.rs:7. It was the first of 7 such tensors.\n";
    assert!(text.contains(first), "{text}");
    assert!(
        text.contains("100.0 % of the output of dead is 0: no gradient passes through it\n"),
        "{text}"
    );
    assert!(
        text.contains(
            "            It is f32 [2], on thread main. The module was created at src/net.rs:36.\n"
        ),
        "{text}"
    );
    let again = "Rerun       in step 12 the output of [module]Linear: first is not finite: 1 infinite of 1 numbers, among 5 tensors.\n";
    assert!(text.contains(again), "{text}");
    assert!(text.contains("\nRecord: fit.numerics.jsonl\n"), "{text}");
    assert!(text.contains("\nSaved tensors: fit.numerics.safetensors\n"), "{text}");
    let mut op = report.first_not_finite.clone().expect("one");
    op.role = TensorRole::OpOutput;
    op.name = op_in_module("aten::log", "[module]Linear: head");
    op.location = None;
    report.first_op_not_finite = Some(Box::new(op));
    let text = paint(&report);
    let first_op = "First op    in step 12 the output of aten::log in [module]Linear: head is not finite: 1 NaN of 2 numbers. ";
    assert!(text.contains(first_op), "{text}");
    report.first_not_finite = None;
    report.first_op_not_finite = None;
    assert!(paint(&report).contains("Not finite  none in any step\n"), "{}", paint(&report));
    let report = crate::Report::Numerics(report);
    let json = report.to_json().expect("JSON");
    assert_eq!(crate::Report::from_json(&json).expect("read back"), report);
    let page = crate::page::html(&[report]);
    assert!(
        page.contains("No tensor contained NaN or infinity.")
            && page.contains("no gradient passes"),
        "{page}"
    );
}

#[test]
fn an_op_is_told_with_its_module_and_direction_and_what_it_was_given() {
    let told = |role, name: &str, input: &[f32]| RecordedTensor {
        step: 3,
        role,
        input: (!input.is_empty()).then(|| statistics(input)),
        ..recorded(name, &[f32::NAN, 1.0])
    };
    let forward = told(TensorRole::OpOutput, "aten::log", &[-1.0]);
    let expected = "in step 3 the output of aten::log is not finite: 1 NaN of 2 numbers. Its input was finite, from -1.000 to -1.000";
    assert_eq!(forward.what_is_not_finite(), expected);
    let name = op_in_module("aten::div", "[module]Linear: a > b");
    let backward = told(TensorRole::BackwardOpOutput, &name, &[f32::INFINITY]);
    let expected = "in step 3 the output of aten::div in the backward pass of [module]Linear: a > b is not finite: 1 NaN of 2 \
                    numbers. Its input had infinite numbers but no NaN";
    assert_eq!(backward.what_is_not_finite(), expected);
    assert!(forward.makes_not_finite() && backward.makes_not_finite(), "infinities made NaN");
    assert!(told(TensorRole::OpOutput, "a", &[]).makes_not_finite(), "nothing else is known");
    assert!(!told(TensorRole::OpOutput, "a", &[f32::NAN]).makes_not_finite());
}

/// Checks the norm of tensors without finite numbers.
#[test]
fn a_tensor_without_a_finite_number_has_no_norm_of_0() {
    let rows = [("nan", &[f32::NAN; 4]), ("inf", &[f32::INFINITY; 4]), ("zero", &[0.0; 4])];
    let rows = rows.map(|(name, last)| row(TensorRole::Output, name, &[&[1.0; 4], last]));
    let mut report = crate::findings::samples::numbers(rows.to_vec());
    report.rerun =
        Some(Box::new(Rerun { step: 1, tensors: 3, first_not_finite: None, failure: None }));
    let text = paint(&report);
    for (name, norm) in [("nan", "NaN"), ("inf", "inf"), ("zero", "0")] {
        let line = text.lines().find(|line| line.ends_with(&format!(" {name}")));
        let cells: Vec<&str> = line.expect("a row").split_whitespace().collect();
        assert_eq!(cells[5], norm, "{text}");
    }
    assert!(text.contains(" steps and one rerun batch, in "), "{text}");
    assert!(text.lines().any(|line| line.contains("Tensors read ")), "{text}");
    let page = crate::page::html(&[crate::Report::Numerics(report)]);
    assert!(page.contains("<td>NaN") && page.contains("<td>inf"), "{page}");
}

#[test]
fn the_interval_is_told_with_the_lines_of_the_program() {
    let end = |name: &str, source: Option<&str>| IntervalEnd {
        name: format!("[module]Linear: {name}"),
        source: source.map(str::to_owned),
    };
    let forward = FaultInterval::Forward {
        after: end("l1", Some("src/net.rs:21")),
        until: end("l2", Some("src/net.rs:22")),
    };
    let mut tensor = RecordedTensor {
        input: Some(statistics(&[f32::NAN])),
        location: Some("src/net.rs:40".to_owned()),
        interval: Some(Box::new(forward)),
        ..recorded("[module]Linear: l2", &[f32::NAN])
    };
    let expected = "in step 12 the output of [module]Linear: l2 is not finite: 1 NaN of 1 numbers. Its input was already not finite. The fault \
                    began between [module]Linear: l1 (its output was finite; created at src/net.rs:21) and [module]Linear: l2 (created at \
                    src/net.rs:22). It was called at src/net.rs:40";
    assert_eq!(tensor.what_is_not_finite(), expected);
    let line = tensor.to_line().expect("JSON");
    assert_eq!(RecordedTensor::from_line(&line).expect("read back"), tensor);
    tensor.interval = Some(Box::new(FaultInterval::Backward {
        after: Some(end("l3", None)),
        until: end("l2", Some("src/net.rs:22")),
    }));
    (tensor.role, tensor.name, tensor.input) = (TensorRole::Gradient, "l2.bias".to_owned(), None);
    let expected = "in step 12 the gradient of l2.bias is not finite: 1 NaN of 1 numbers. The fault began in the backward pass of [module]Linear: \
                    l2 (created at src/net.rs:22), or between [module]Linear: l3 (its gradients are finite) and it. The optimizer's step \
                    was called at src/net.rs:40";
    assert_eq!(tensor.what_is_not_finite(), expected);
}
