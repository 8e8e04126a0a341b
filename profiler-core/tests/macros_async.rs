//! Tests of `#[profiled]` on `async fn`: polls are measured, and waiting is not.

mod recorder;

use std::error::Error;
use std::fmt::Display;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use mlprof_core::future::ProfiledFuture;
use mlprof_core::prelude::*;
use mlprof_core::profile;
use recorder::record;

/// Future that is pending this many times and then ready.
struct PendingTimes(u32);

impl Future for PendingTimes {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs one future. This executor also does other work between polls.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll_once(future.as_mut()) {
            return output;
        }
        drop(profile!("elsewhere"));
    }
}

#[profiled]
fn work() {}

#[profiled]
async fn waits(times: u32) -> u32 {
    work();
    PendingTimes(times).await;
    work();
    times
}

#[profiled]
async fn waits_twice() -> u32 {
    waits(1).await + waits(0).await
}

#[test]
fn each_poll_is_a_call_and_waiting_is_not_measured() {
    let recorder = record(|| assert_eq!(block_on(waits(2)), 2));
    assert_eq!(recorder.nesting(), "waits(work()) elsewhere() waits() elsewhere() waits(work())");

    let recorder = record(|| assert_eq!(block_on(waits_twice()), 1));
    assert_eq!(
        recorder.nesting(),
        "waits_twice(waits(work())) elsewhere() waits_twice(waits(work()) waits(work() work()))"
    );
}

#[test]
fn an_async_function_is_called_once_however_often_it_is_polled() {
    let profiler = std::sync::Arc::new(AdvancedProfiler::new());
    // Only one profiler can be active at a time, so `record` waits for others.
    let _recorder = record(|| {
        let _active = activate(profiler.clone());
        assert_eq!(block_on(waits_twice()), 1);
        assert_eq!(block_on(waits(0)), 0);
    });
    let report = profiler.snapshot();
    let counts = |name: &str| {
        let functions = report.actions.iter().flat_map(|action| &action.functions);
        let named = functions.filter(|row| row.function.name == name);
        named.fold((0, 0), |sum, row| (sum.0 + row.calls.total_calls, sum.1 + row.calls.polls))
    };
    assert_eq!(counts("waits_twice"), (1, 2));
    assert_eq!(counts("waits"), (3, 4));
    assert_eq!(counts("work"), (6, 0));
}

#[test]
fn a_future_that_is_never_polled_or_dropped_half_way_leaves_nothing_open() {
    let recorder = record(|| {
        drop(waits(1));
        let mut half_way = Box::pin(waits(1));
        assert!(poll_once(half_way.as_mut()).is_pending());
        drop(half_way);
        work();
    });
    assert_eq!(recorder.nesting(), "waits(work()) work()");
}

#[test]
fn a_future_may_be_polled_under_one_profiler_and_finished_under_none() {
    let mut future = pin!(waits(1));
    let recorder = record(|| assert!(poll_once(future.as_mut()).is_pending()));
    assert!(poll_once(future.as_mut()).is_ready());
    assert_eq!(recorder.nesting(), "waits(work())");
}

#[profiled]
async fn panics() {
    PendingTimes(1).await;
    panic!("on purpose");
}

#[test]
fn a_panic_stops_the_poll() {
    let recorder = record(|| {
        catch_unwind(AssertUnwindSafe(|| block_on(panics()))).expect_err("panics");
        work();
    });
    assert_eq!(recorder.nesting(), "panics() elsewhere() panics() work()");
}

struct Service {
    name: String,
}

trait Answers {
    async fn answer(&mut self, question: &str) -> String;
}

#[profiled]
impl Service {
    async fn name(&self) -> &str {
        PendingTimes(0).await;
        &self.name
    }

    async fn shorter<'a>(&'a self, other: &'a str) -> &'a str {
        let own = self.name().await;
        if other.len() < own.len() {
            return other;
        }
        own
    }

    async fn letters(
        &self,
    ) -> Result<impl Iterator<Item = char> + '_, Box<dyn Error + Send + Sync>> {
        let _: u32 = "1".parse()?;
        Ok(self.name.chars())
    }

    async fn take((left, mut right): (u32, u32), [first, ..]: [u32; 2]) -> u32 {
        right += left;
        right + first
    }

    fn boxed(&self) -> Pin<Box<dyn Future<Output = usize> + Send + '_>> {
        Box::pin(async move { self.name.len() })
    }

    fn returned(&self) -> impl Future<Output = usize> + '_ {
        async move { self.name.len() }
    }

    /// # Safety
    ///
    /// The function has no preconditions.
    async unsafe fn trusting(&self) {}
}

#[profiled]
impl Answers for Service {
    async fn answer(&mut self, question: &str) -> String {
        self.name.push_str(question);
        self.name.clone()
    }
}

#[test]
fn async_methods_borrow_and_return_what_they_did() {
    let recorder = record(|| {
        let mut service = Service { name: "abc".into() };
        assert_eq!(block_on(service.shorter("z")), "z");
        assert_eq!(block_on(service.letters()).expect("a number").count(), 3);
        assert_eq!(block_on(Service::take((1, 2), [3, 4])), 6);
        assert_eq!(block_on(service.boxed()) + block_on(service.returned()), 6);
        // SAFETY: the function has no preconditions.
        block_on(unsafe { service.trusting() });
        assert_eq!(block_on(service.answer("?")), "abc?");
    });
    assert_eq!(
        recorder.nesting(),
        "Service::shorter(Service::name()) Service::letters() Service::take() Service::boxed() \
         Service::returned() Service::trusting() Service::answer()"
    );
}

#[profiled]
async fn unsizes(flag: bool) -> Box<dyn Display + Send> {
    if flag {
        return Box::new(1);
    }
    Box::new("two")
}

#[profiled]
async fn fails(text: &str) -> Result<u32, Box<dyn Error>> {
    let number: u32 = text.parse()?;
    if number == 0 {
        Err("nothing")?;
    }
    Ok(number)
}

#[profiled]
async fn infers() -> Vec<u8> {
    PendingTimes(0).await;
    "ab".bytes().rev().collect()
}

#[profiled]
async fn never() -> ! {
    panic!("on purpose");
}

#[profiled]
async fn counts_down(n: u32) -> u32 {
    if n == 0 { 0 } else { Box::pin(counts_down(n - 1)).await + 1 }
}

#[test]
fn bodies_are_typed_by_the_signature() {
    let recorder = record(|| {
        assert_eq!(
            block_on(unsizes(true)).to_string() + &block_on(unsizes(false)).to_string(),
            "1two"
        );
        assert_eq!(block_on(fails("0")).expect_err("nothing").to_string(), "nothing");
        block_on(fails("x")).expect_err("not a number");
        assert_eq!(block_on(infers()), b"ba");
        catch_unwind(|| block_on(never())).expect_err("panics");
        assert_eq!(block_on(counts_down(2)), 2);
    });
    assert_eq!(
        recorder.nesting(),
        "unsizes() unsizes() fails() fails() infers() never() counts_down(counts_down(counts_down()))"
    );
}

#[test]
fn futures_may_still_be_sent_to_other_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let recorder = record(|| {
        let mut future = Box::pin(is_send(waits(1)));
        assert!(poll_once(future.as_mut()).is_pending());
        let answer = std::thread::spawn(move || block_on(future)).join();
        assert_eq!(answer.expect("no panic"), 1);
        drop(is_send(ProfiledFuture::new("by hand", async {})));
    });
    assert_eq!(recorder.nesting(), "waits(work())", "the second poll is the other thread's");
}

#[test]
fn futures_are_measured_by_hand_too() {
    let recorder = record(|| block_on(ProfiledFuture::new("download", PendingTimes(1))));
    assert_eq!(recorder.nesting(), "download() elsewhere() download()");
}
