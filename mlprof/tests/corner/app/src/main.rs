//! Calls functions that are difficult to instrument.

use std::future::Future;
use std::panic::catch_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use corner::columns::{self, Of, Trait};
use corner::recursion::{self, Counter, Named, Called};

fn main() {
    println!("{}", corner::everywhere());
    match std::env::args().nth(1).as_deref() {
        Some("columns") => {
            println!("{:?} {}", columns::here(), corner::caller());
            let of = || Of(vec![]);
            let panics: [fn(&Of) -> u32; 9] = [
                |of| of.method(3),
                |of| of.provided(),
                |_| columns::plain(2),
                |_| columns::attributed("x"),
                |of| columns::größe(&of.0),
                |of| columns::closure(&of.0),
                |of| polled(columns::later(&of.0)),
                |_| columns::in_module(),
                |_| corner::in_the_first_line(),
            ];
            for panics in panics {
                assert!(catch_unwind(|| panics(&of())).is_err());
            }
        }
        Some("tail") => {
            let mut counter = Counter(1_000_000);
            counter.down();
            println!("{} {}", recursion::tail(1_000_000, 1), counter.0);
            println!("{}", recursion::returning(1, &mut Vec::new()));
            println!("{}", Counter::steps(1 << 20, 0));
            println!("{} {}", Named.named(), Called::named(&Named));
        }
        _ => {}
    }
}

fn polled<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("it waits for nothing"),
    }
}
