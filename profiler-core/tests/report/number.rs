use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use mlprof_core::report::number::five_digits;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::python;

/// Python process that formats one number per line.
struct Formatter {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Formatter {
    fn new() -> Self {
        let script = "import struct, sys\n\
                      for line in sys.stdin:\n    \
                          value, = struct.unpack('>d', bytes.fromhex(line))\n    \
                          print(format(value, '.5'), flush=True)";
        let mut process = python::start(script, &[]);
        let questions = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, questions, answers }
    }

    /// Formats the values. There must be few enough that the answers fit into a pipe.
    fn format(&mut self, values: &[f64]) -> Vec<String> {
        let questions: String =
            values.iter().map(|value| format!("{:016x}\n", value.to_bits())).collect();
        self.questions.write_all(questions.as_bytes()).expect("python3 listens");
        let answers = self.answers.by_ref().lines().take(values.len());
        answers.map(|answer| answer.expect("python3 answers")).collect()
    }
}

impl Drop for Formatter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn any_number_is_formatted_as_python_does() {
    let python = RefCell::new(Formatter::new());
    let number = prop_oneof![
        proptest::num::f64::ANY, // all magnitudes, zeros, infinities, nans
        (-12.0..8.0).prop_map(|power: f64| 10f64.powf(power)), // durations
        0.0..100.0,              // percentages
        (0_u32..1_000_000).prop_map(|n| f64::from(n) / 100.0), // halves of the last digit
        ((-9_i32..9), 99_995_u32..100_000).prop_map(|(power, n)| f64::from(n) * 10f64.powi(power)), // rounding up a digit
    ];
    let numbers = proptest::collection::vec(number, 400);
    let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&numbers, |numbers| {
        for (number, expected) in numbers.iter().zip(python.borrow_mut().format(&numbers)) {
            prop_assert_eq!(five_digits(*number), expected, "{:e}", number);
        }
        Ok(())
    });
    outcome.expect("the same text");
}

#[test]
fn numbers_at_the_borders_of_a_notation() {
    let mut python = Formatter::new();
    let borders = [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
        (-f64::NAN, "nan"),
        (7.0, "7.0"),
        (39.62, "39.62"),
        (9999.9, "9999.9"),
        (9999.96, "1e+04"),
        (10_000.0, "1e+04"),
        (12_345.678, "1.2346e+04"),
        (1e100, "1e+100"),
        (0.0001, "0.0001"),
        (0.000_099_999_9, "0.0001"),
        (0.000_099_99, "9.999e-05"),
        (1.644e-6, "1.644e-06"),
        (5e-324, "4.9407e-324"),
        (f64::MAX, "1.7977e+308"),
        (0.5, "0.5"),
        (2.00005, "2.0"),
        (-1.5, "-1.5"),
    ];
    for (value, expected) in borders {
        assert_eq!(python.format(&[value]), [expected], "Python itself, {value:e}");
        assert_eq!(five_digits(value), expected, "{value:e}");
    }
}
