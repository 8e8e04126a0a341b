//! Tests of `#[profiled]` on functions, methods and impl blocks that are not `async`.

mod recorder;

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlprof_core::prelude::*;
use mlprof_core::{ActionKind, Interest, profile};
use recorder::{Recorder, record, turn};

#[profiled]
fn leaf() -> u32 {
    7
}

#[profiled]
fn caller() -> u32 {
    let _scope = profile!("inside");
    leaf() + leaf()
}

#[test]
fn functions_and_guards_nest() {
    let recorder = record(|| assert_eq!(caller(), 14));
    assert_eq!(recorder.nesting(), "caller(inside(leaf() leaf()))");
}

#[test]
fn without_interest_in_functions_only_actions_are_seen() {
    let _turn = turn();
    let recorder = Recorder::new(Interest::ACTIONS);
    let activated = activate(recorder.clone());
    caller();
    drop(activated);
    caller();
    assert_eq!(recorder.nesting(), "inside()");
}

#[rustfmt::skip]
mod places {
    use mlprof_core::prelude::profiled;

    pub const LINE: u32 = line!() + 3;

    #[profiled]
    #[inline]
    pub fn somewhere() -> (u32, u32) { let first = line!();
        (first, line!())
    }
}

#[test]
fn actions_know_where_they_are_written_and_bodies_keep_their_lines() {
    let recorder = record(|| {
        // `LINE` is counted from the attribute. The function is written two lines below.
        assert_eq!(places::somewhere(), (places::LINE + 1, places::LINE + 2));
    });
    let action = recorder.started()[0];
    assert_eq!(action.kind(), ActionKind::Function);
    let location = action.location().expect("written somewhere");
    assert_eq!((location.file, location.line), (file!(), places::LINE + 1));
}

#[profiled]
fn fails_early(text: &str) -> Result<u32, std::num::ParseIntError> {
    let number: u32 = text.parse()?;
    if number == 0 {
        return Ok(1);
    }
    leaf();
    Ok(number)
}

#[profiled]
fn panics() {
    leaf();
    panic!("on purpose");
}

#[profiled]
fn never() -> ! {
    panic!("on purpose");
}

#[test]
fn every_way_out_stops_the_action() {
    let recorder = record(|| {
        fails_early("no").expect_err("not a number");
        assert_eq!(fails_early("0"), Ok(1));
        assert_eq!(fails_early("5"), Ok(5));
    });
    assert_eq!(recorder.nesting(), "fails_early() fails_early() fails_early(leaf())");

    let recorder = record(|| {
        catch_unwind(panics).expect_err("panics");
        catch_unwind(|| never()).expect_err("panics");
        leaf();
    });
    assert_eq!(recorder.nesting(), "panics(leaf()) never() leaf()");
}

#[profiled]
fn factorial(n: u64) -> u64 {
    if n == 0 { 1 } else { n * factorial(n - 1) }
}

#[test]
fn recursion_nests() {
    let recorder = record(|| assert_eq!(factorial(2), 2));
    assert_eq!(recorder.nesting(), "factorial(factorial(factorial()))");
}

struct SaysGoodbye;

impl Drop for SaysGoodbye {
    #[profiled(name = "goodbye")]
    fn drop(&mut self) {}
}

#[profiled]
fn drops_a_local() {
    let _local = SaysGoodbye;
}

#[test]
fn dropping_locals_belongs_to_the_function() {
    assert_eq!(record(drops_a_local).nesting(), "drops_a_local(goodbye())");
}

struct Net<T> {
    weights: Vec<T>,
}

/// Documentation stays where it is.
#[profiled]
impl<T: Copy + std::iter::Sum<T>> Net<T>
where
    T: Display,
{
    const DEPTH: usize = 2;

    fn new(weights: Vec<T>) -> Self {
        Self { weights }
    }

    fn forward<U>(&self, scale: impl Fn(T) -> U) -> impl Iterator<Item = U>
    where
        U: Display,
    {
        self.weights.iter().map(move |weight| scale(*weight))
    }

    #[must_use]
    pub(crate) fn first_mut(&mut self) -> Option<&mut T> {
        self.weights.first_mut()
    }

    #[profiled(skip)]
    const fn depth(&self) -> usize {
        Self::DEPTH
    }

    #[profiled(name = "total")]
    fn sum(self: std::rc::Rc<Self>) -> T {
        self.weights.iter().copied().sum()
    }
}

#[profiled]
impl<T> Display for Net<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} weights", self.weights.len())
    }
}

trait Layer {
    fn width(&self) -> usize;

    #[profiled]
    fn area(&self) -> usize {
        self.width() * self.width()
    }
}

#[profiled]
impl Layer for &Net<u8> {
    fn width(&self) -> usize {
        self.weights.len()
    }
}

#[profiled]
impl Layer for [u8; 2] {
    fn width(&self) -> usize {
        self.len()
    }
}

#[profiled]
impl dyn Layer + '_ {
    fn doubled(&self) -> usize {
        self.width() * 2
    }
}

struct Alias;

#[profiled(name = "Model")]
impl Alias {
    fn r#match(&self) {}

    unsafe fn danger(&self) {}

    extern "C" fn foreign() {}
}

#[test]
fn methods_carry_the_name_of_their_type() {
    let recorder = record(|| {
        let mut net = Net::new(vec![1_u8, 2]);
        assert_eq!(net.forward(|weight| weight + 1).last(), Some(3));
        *net.first_mut().expect("there") = 5;
        assert_eq!(net.depth(), 2);
        assert_eq!(net.to_string(), "2 weights");
        assert_eq!((&net).area(), 4);
        assert_eq!(std::rc::Rc::new(net).sum(), 7);
    });
    assert_eq!(
        recorder.nesting(),
        "Net::new() Net::forward() Net::first_mut() Net::fmt() area(Net::width() Net::width()) total()"
    );

    let recorder = record(|| {
        let layer: &dyn Layer = &[0_u8; 2];
        assert_eq!(layer.doubled(), 4);
        Alias.r#match();
        // SAFETY: the function has no preconditions.
        unsafe { Alias.danger() };
        Alias::foreign();
    });
    assert_eq!(
        recorder.nesting(),
        "dyn Layer::doubled([u8; 2]::width()) Model::match() Model::danger() Model::foreign()"
    );
}

/// Uses names that an expansion might also use.
#[profiled]
#[allow(non_upper_case_globals)]
fn clashes(_profile_scope: u32) -> u32 {
    static CALLSITE: u32 = 1;
    mod core {}
    let callsite = CALLSITE;
    struct Option;
    let _ = Option;
    _profile_scope + callsite
}

#[test]
fn names_in_the_body_do_not_clash_with_ours() {
    let recorder = record(|| assert_eq!(clashes(1), 2));
    assert_eq!(recorder.nesting(), "clashes()");
}

#[profiled]
fn longest<'a>(left: &'a str, right: &'a str) -> &'a str {
    if left.len() > right.len() { left } else { right }
}

#[profiled]
fn coerces(flag: bool) -> Box<dyn Fn() -> u32> {
    if flag {
        return Box::new(|| 1);
    }
    Box::new(|| 2)
}

#[profiled]
fn generic<T: Default, const N: usize>() -> [T; N] {
    #![allow(clippy::let_and_return)]
    let made = std::array::from_fn(|_| T::default());
    made
}

#[test]
fn signatures_of_all_kinds_compile_and_keep_their_meaning() {
    let recorder = record(|| {
        assert_eq!(longest("a", "bc"), "bc");
        assert_eq!(coerces(true)() + coerces(false)(), 3);
        assert_eq!(generic::<u8, 2>(), [0, 0]);
        assert_eq!(generic::<String, 1>(), [""]);
    });
    assert_eq!(recorder.nesting(), "longest() coerces() coerces() generic() generic()");
    let [.., first, second] = recorder.started()[..] else { panic!("five") };
    assert_eq!(first, second, "one row for all instances");
}

mod facade {
    pub use mlprof_core as inner;
}

#[mlprof_core::prelude::profiled(crate = crate::facade::inner, name = "by path")]
fn by_path() {}

#[profiled(crate = "facade::inner")]
fn by_text() {}

#[profiled(crate = facade::inner)]
impl SaysGoodbye {
    #[profiled(crate = crate::facade::inner)]
    fn by_block(&self) {}
}

#[test]
fn the_crate_may_be_elsewhere() {
    let recorder = record(|| {
        by_path();
        by_text();
        let goodbye = SaysGoodbye;
        goodbye.by_block();
        std::mem::forget(goodbye);
    });
    assert_eq!(recorder.nesting(), "by path() by_text() SaysGoodbye::by_block()");
}

macro_rules! make {
    ($($name:ident => $body:expr;)*) => {
        $(
            #[profiled]
            fn $name() -> u32 {
                $body
            }
        )*
    };
}

const MAKE_LINE: u32 = line!() + 2;
make! {
    made_first => 1;
    made_second => made_first() + 1;
}

#[test]
fn functions_made_by_macros_are_where_their_names_are() {
    let recorder = record(|| assert_eq!(made_second(), 2));
    assert_eq!(recorder.nesting(), "made_second(made_first())");
    let lines: Vec<_> =
        recorder.started().iter().map(|action| action.location().expect("known").line).collect();
    assert_eq!(lines, [MAKE_LINE + 1, MAKE_LINE]);
}

#[test]
fn functions_inside_functions() {
    #[profiled]
    fn local(values: &mut Vec<u32>) {
        values.push(1);
    }
    let mut values = Vec::new();
    let recorder = record(AssertUnwindSafe(|| local(&mut values)).0);
    assert_eq!((recorder.nesting().as_str(), values.len()), ("local()", 1));
}
