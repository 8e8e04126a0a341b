//! Demangling of C++ names.

use std::borrow::Cow;
use std::fmt;
use std::thread;

use cpp_demangle::error::Error;
use cpp_demangle::{DemangleOptions, DemangleWrite, ParseOptions, Symbol};

/// Maximum length of a name in bytes, mangled or demangled. A short mangled name can expand to an
/// extremely long one.
const MOST_BYTES: usize = 64 << 10;

/// Limits for the nesting of a name.
#[derive(Clone, Copy)]
struct Depth {
    parsing: u32,
    printing: u32,
}

/// Limits that fit on the stack of any thread. A name at these limits needs 1.5 MiB without
/// compiler optimisation, and a tenth of that with it.
const SHALLOW: Depth = Depth { parsing: 96, printing: 128 };
/// Limits that fit on a stack of [`STACK`] bytes.
const DEEP: Depth = Depth { parsing: 1024, printing: 1024 };
const STACK: usize = 32 << 20;

/// Reason why a name cannot be demangled.
enum Failure {
    TooDeep,
    /// The name is too long or not a C++ name.
    Other,
}

/// Returns the demangled name. The name stays as it is if it is not mangled C++, is nested too
/// deeply, or is longer than 64 KiB. Names mangled by Rust are also unchanged.
///
/// *Cost*: up to milliseconds, and a thread for a deeply nested name, so callers should cache the
/// result.
pub(crate) fn demangled(name: &str) -> Cow<'_, str> {
    if !name.starts_with("_Z") || name.len() > MOST_BYTES || is_rust(name) {
        return Cow::Borrowed(name);
    }
    match demangle(name, SHALLOW) {
        Ok(demangled) => Cow::Owned(demangled),
        Err(Failure::TooDeep) => with_more_room(name).map_or(Cow::Borrowed(name), Cow::Owned),
        Err(Failure::Other) => Cow::Borrowed(name),
    }
}

/// Returns `true` for Rust's legacy mangling, which resembles C++ with a hash at the end.
fn is_rust(name: &str) -> bool {
    let hash = name.strip_suffix('E').and_then(|name| name.rsplit_once("17h"));
    hash.is_some_and(|(_, hash)| {
        hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn demangle(name: &str, depth: Depth) -> Result<String, Failure> {
    let parse = ParseOptions::default().recursion_limit(depth.parsing);
    let symbol = Symbol::new_with_options(name, &parse).map_err(|error| match error {
        Error::TooMuchRecursion => Failure::TooDeep,
        _ => Failure::Other,
    })?;
    let mut text = Bounded { text: String::with_capacity(2 * name.len()), is_full: false };
    let print = DemangleOptions::new().recursion_limit(depth.printing);
    match symbol.structured_demangle(&mut text, &print) {
        Ok(()) => Ok(with_suffixes(text.text)),
        Err(fmt::Error) if text.is_full => Err(Failure::Other),
        Err(fmt::Error) => Err(Failure::TooDeep),
    }
}

/// Demangles a name on a separate thread with a larger stack. `None` if this also fails or the
/// thread cannot be started.
fn with_more_room(name: &str) -> Option<String> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("mlprof-names".into()).stack_size(STACK);
        let thread = thread.spawn_scoped(scope, || demangle(name, DEEP).ok()).ok()?;
        thread.join().ok()?
    })
}

/// Replaces casts of integer literals by suffixes as other tools do: `3ul` instead of `(unsigned
/// long)3`.
fn with_suffixes(text: String) -> String {
    const SUFFIXES: [(&str, &str); 5] = [
        ("(unsigned int)", "u"),
        ("(long)", "l"),
        ("(unsigned long)", "ul"),
        ("(long long)", "ll"),
        ("(unsigned long long)", "ull"),
    ];
    let mut written = String::new();
    let mut rest = text.as_str();
    while let Some(open) = rest.find('(') {
        let (before, from_open) = rest.split_at(open);
        written.push_str(before);
        let number = SUFFIXES.iter().find_map(|(name, suffix)| {
            let behind = from_open.strip_prefix(name)?;
            let sign = usize::from(behind.starts_with('-'));
            let digits = behind[sign..].bytes().take_while(u8::is_ascii_digit).count();
            (digits > 0).then(|| (behind.split_at(sign + digits), suffix))
        });
        rest = match number {
            Some(((number, behind), suffix)) => {
                written.extend([number, suffix]);
                behind
            }
            None => {
                written.push('(');
                &from_open[1..]
            }
        };
    }
    written.push_str(rest);
    written
}

/// Text of at most [`MOST_BYTES`] bytes.
struct Bounded {
    text: String,
    is_full: bool,
}

impl DemangleWrite for Bounded {
    fn write_string(&mut self, text: &str) -> fmt::Result {
        self.is_full |= self.text.len() + text.len() > MOST_BYTES;
        if self.is_full {
            return Err(fmt::Error);
        }
        self.text.push_str(text);
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ADD: &str = "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE\
        St5arrayIPcLm3EEEEviT0_T1_";

    /// Returns a mangled `f` of `a<a<…float…>>`, nested `depth` times.
    fn nested(depth: usize) -> String {
        format!("_Z1f{}If{}vv", "I1a".repeat(depth), "E".repeat(depth + 1))
    }

    #[test]
    fn names_of_cpp_are_as_they_were_written() {
        assert_eq!(
            demangled(ADD),
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, \
             std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, \
             std::array<char*, 3ul>)"
        );
        assert_eq!(
            demangled("_Z6vecAddPKfS0_Pfi"),
            "vecAdd(float const*, float const*, float*, int)"
        );
        let literals = "_Z1fILb1ELj2ELin3ELl4ELm5ELx6ELy7ELc65ELN1a1eE8EEvv";
        assert_eq!(
            demangled(literals),
            "void f<true, 2u, -3, 4l, 5ul, 6ll, 7ull, (char)65, (a::e)8>()"
        );
        assert_eq!(
            demangled(
                "_ZN63_GLOBAL__N__0e2dc0a4_23_DistributionNormal_cu_63a7a3f3_1234512fill_zeroEPf"
            ),
            "_ZN63_GLOBAL__N__0e2dc0a4_23_DistributionNormal_cu_63a7a3f3_1234512fill_zeroEPf",
            "a length that is not the name's"
        );
        assert_eq!(demangled("_ZN12_GLOBAL__N_14fillEPf"), "(anonymous namespace)::fill(float*)");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        for name in [
            "",
            "_Z",
            "_Z1",
            "volta_sgemm_128x64_nn",
            "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
            "void already::written<int>(float)",
            "_RNvCs1234_7mycrate3foo",
            "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
            "_ZN\u{e4}\u{1f600}",
        ] {
            assert!(matches!(demangled(name), Cow::Borrowed(same) if same == name), "{name}");
        }
    }

    #[test]
    fn names_nested_beyond_a_threads_stack_are_written_out_up_to_a_depth() {
        for depth in [1, 15, 20, 100, 200] {
            let expected = format!("<{}float{}", "a<".repeat(depth), ">".repeat(depth + 1));
            let demangled = demangled(&nested(depth)).replace(' ', "");
            assert_eq!(demangled, format!("voidf{expected}()"));
        }
        for depth in [1000, 10_000] {
            assert_eq!(demangled(&nested(depth)), nested(depth));
        }
        let pointers = format!("_Z1f{}i", "P".repeat(60_000));
        assert_eq!(demangled(&pointers), pointers);
    }

    #[test]
    fn names_that_are_too_long_stay_as_they_are() {
        let long = format!("_Z70000{}v", "a".repeat(70_000));
        assert_eq!(demangled(&long), long);
        // Each type is a pair of the previous type, so a thousand characters represent 2 to the
        // power of 100.
        let mut doubling = String::from("_Z1f1aIiE");
        for number in 0..100_u32 {
            let (high, low) = (number / 36, number % 36);
            let digit = |value| char::from_digit(value, 36).unwrap_or('0').to_ascii_uppercase();
            let previous = match (number, high) {
                (0, _) => String::from("S0_"),
                (_, 0) => format!("S{}_", digit(low)),
                _ => format!("S{}{}_", digit(high), digit(low)),
            };
            doubling.push_str(&format!("S_I{previous}{previous}E"));
        }
        assert_eq!(demangled(&doubling), doubling);
    }

    proptest! {
        #[test]
        fn no_name_does_harm(
            start in 0..ADD.len(),
            length in 0..30_usize,
            text in "[_ZNSTIJLKPRFXEabcdi0-9]{0,60}",
        ) {
            let mut name = ADD.to_owned();
            name.replace_range(start..(start + length).min(ADD.len()), &text);
            prop_assert!(demangled(&name).len() <= MOST_BYTES);
            let name = format!("_Z{text}");
            prop_assert!(demangled(&name).len() <= MOST_BYTES);
        }
    }
}
