//! Writer of `.prof` files in the format of Python's `cProfile`, for `python -m pstats`, snakeviz,
//! gprof2dot and tuna.
//!
//! The file is one dictionary in Python's `marshal` format: `{(file, line, name): (cc, nc, tt, ct,
//! {caller: (nc, cc, tt, ct)})}`. `cc` is the number of primitive calls, `nc` the number of all
//! calls. `tt` and `ct` are the self and cumulative time in seconds. Caller entries begin with
//! `nc`, because `cProfile` writes and `pstats` reads that order.

use std::collections::HashMap;

use crate::advanced::{ActionProfile, CallStatistics, FunctionKey};

/// Encodes the profile of one action as a `.prof` file that every Python 3 version can read.
///
/// Sums functions that have the same key, because a dictionary holds each key once.
pub fn encode(profile: &ActionProfile) -> Vec<u8> {
    let mut functions = InOrder::default();
    for function in &profile.functions {
        let (calls, callers): &mut (_, InOrder<CallStatistics>) =
            functions.entry(&function.function);
        add(calls, &function.calls);
        for caller in &function.callers {
            add(callers.entry(&caller.caller), &caller.calls);
        }
    }
    let mut out = Marshal::default();
    out.open_dictionary();
    for (function, (calls, callers)) in functions.values {
        out.key(function);
        out.tuple(5);
        out.counts(calls.primitive_calls, calls.total_calls);
        out.times(&calls);
        out.open_dictionary();
        for (caller, calls) in callers.values {
            out.key(caller);
            out.tuple(4);
            out.counts(calls.total_calls, calls.primitive_calls);
            out.times(&calls);
        }
        out.close_dictionary();
    }
    out.close_dictionary();
    out.bytes
}

fn add(sum: &mut CallStatistics, calls: &CallStatistics) {
    sum.total_calls += calls.total_calls;
    sum.primitive_calls += calls.primitive_calls;
    sum.polls += calls.polls;
    sum.self_seconds += calls.self_seconds;
    sum.cumulative_seconds += calls.cumulative_seconds;
}

/// Map that keeps the insertion order, as Python's dictionaries do.
struct InOrder<'keys, V> {
    positions: HashMap<&'keys FunctionKey, usize>,
    values: Vec<(&'keys FunctionKey, V)>,
}

impl<V> Default for InOrder<'_, V> {
    fn default() -> Self {
        Self { positions: HashMap::new(), values: Vec::new() }
    }
}

impl<'keys, V: Default> InOrder<'keys, V> {
    fn entry(&mut self, key: &'keys FunctionKey) -> &mut V {
        let position = *self.positions.entry(key).or_insert_with(|| {
            self.values.push((key, V::default()));
            self.values.len() - 1
        });
        &mut self.values[position].1
    }
}

/// Encoder for Python's `marshal` format. It uses only type codes that all Python 3 versions
/// support.
#[derive(Default)]
struct Marshal {
    bytes: Vec<u8>,
}

impl Marshal {
    fn open_dictionary(&mut self) {
        self.bytes.push(b'{');
    }

    fn close_dictionary(&mut self) {
        self.bytes.push(b'0');
    }

    /// Opens a tuple. The caller must then write `items` items.
    fn tuple(&mut self, items: u32) {
        self.bytes.push(b'(');
        self.bytes.extend(items.to_le_bytes());
    }

    fn key(&mut self, function: &FunctionKey) {
        self.tuple(3);
        self.string(&function.file);
        self.integer(function.line.into());
        self.string(&function.name);
    }

    fn counts(&mut self, first: u64, second: u64) {
        self.integer(first);
        self.integer(second);
    }

    fn times(&mut self, calls: &CallStatistics) {
        self.float(calls.self_seconds);
        self.float(calls.cumulative_seconds);
    }

    fn string(&mut self, text: &str) {
        // The format stores lengths as signed 32-bit integers. Practical names are far shorter. A
        // longer name is truncated to keep the file readable.
        let mut end = text.len().min(i32::MAX as usize);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes.push(b'u');
        self.bytes.extend((end as u32).to_le_bytes());
        self.bytes.extend(&text.as_bytes()[..end]);
    }

    fn integer(&mut self, number: u64) {
        if let Ok(small) = i32::try_from(number) {
            self.bytes.push(b'i');
            self.bytes.extend(small.to_le_bytes());
            return;
        }
        const DIGIT_BITS: u32 = 15;
        let digits = (u64::BITS - number.leading_zeros()).div_ceil(DIGIT_BITS);
        self.bytes.push(b'l');
        self.bytes.extend(digits.to_le_bytes());
        for position in 0..digits {
            let digit = (number >> (position * DIGIT_BITS)) & ((1 << DIGIT_BITS) - 1);
            self.bytes.extend((digit as u16).to_le_bytes());
        }
    }

    fn float(&mut self, number: f64) {
        self.bytes.push(b'g');
        self.bytes.extend(number.to_le_bytes());
    }
}
