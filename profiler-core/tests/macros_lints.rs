//! Checks that `#[profiled]` adds no warnings under any lints that a program enables.

#![deny(
    warnings,
    unused,
    future_incompatible,
    let_underscore_drop,
    keyword_idents,
    nonstandard_style
)]
#![deny(rust_2024_compatibility, single_use_lifetimes, trivial_casts, unreachable_pub)]
#![deny(unused_qualifications, unused_lifetimes, unused_results, variant_size_differences)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]
#![forbid(unsafe_code)]

use mlprof_core::prelude::profiled;

#[profiled]
fn empty() {}

#[profiled]
fn one_expression(number: u32) -> u32 {
    number + 1
}

#[profiled]
fn returns_early(flag: bool) -> Option<u32> {
    if !flag {
        return None;
    }
    Some(one_expression(1))
}

#[profiled]
fn items_first() -> u32 {
    const TWO: u32 = 2;
    TWO
}

#[profiled]
async fn async_empty() {}

#[profiled]
async fn async_borrow(numbers: &mut [u32]) -> &mut u32 {
    const FIRST: usize = 0;
    async_empty().await;
    &mut numbers[FIRST]
}

#[profiled]
async fn async_result(text: &str) -> Result<u32, std::num::ParseIntError> {
    async_empty().await;
    let number = text.parse()?;
    if number == 7 {
        return Ok(8);
    }
    Ok(number)
}

#[profiled]
async fn async_impl(text: &str) -> impl Iterator<Item = char> {
    async_empty().await;
    text.chars()
}

struct Net;

#[profiled]
impl Net {
    const WIDTH: u32 = 1;

    fn forward(&self) -> u32 {
        let Self = self;
        Self::WIDTH
    }

    async fn train(&mut self) -> u32 {
        async_empty().await;
        *self = Self;
        self.forward()
    }
}

#[test]
fn nothing_is_left_unused() {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn ready<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("nothing waits"),
        }
    }

    empty();
    assert_eq!(returns_early(true), Some(2));
    assert_eq!(items_first(), 2);
    assert_eq!(*ready(async_borrow(&mut [3, 4])), 3);
    assert_eq!(ready(async_result("7")), Ok(8));
    assert_eq!(ready(async_impl("ab")).count(), 2);
    assert_eq!(ready(Net.train()), 1);
}
