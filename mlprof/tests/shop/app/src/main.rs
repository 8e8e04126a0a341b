//! Calls functions a known number of times.
#![deny(warnings)]

use std::future::Future;
use std::task::{Context, Poll, Waker};

use counting::{Circle, Shape, Square};

include!(concat!(env!("OUT_DIR"), "/made.rs"));

/// Text of a file two folders up.
const TEXT: &str = include_str!("../../README.md");

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

fn main() {
    let sum: u64 = (0..10).map(|n| counting::fibonacci(n) + MADE).sum();
    let pairs = (counting::twice(&1), counting::twice(&2), counting::twice(&"text"));
    let shapes: [Box<dyn Shape>; 3] =
        [Box::new(Square(1.0)), Box::new(Circle(1.0)), Box::new(Square(2.0))];
    let areas: f64 = shapes.iter().map(|shape| shape.area() + shape.doubled()).sum();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| assert_eq!((0..25).map(counting::leaf).max(), Some(27)));
        }
    });
    let added = block_on(counting::add_slowly(3, 4));
    println!("{sum} {pairs:?} {areas:.3} {added} {} {}", TEXT.trim(), counting::made_twice(2));
    println!("{}:{} {}", file!(), line!(), tools::where_am_i());
    match std::env::args().nth(1).as_deref() {
        Some("fail") => std::process::exit(7),
        Some("panic") => tools::panic_here(),
        Some("spawn") => {
            let own = std::env::current_exe().expect("this program");
            let status = std::process::Command::new(own).status().expect("it runs");
            assert!(status.success());
        }
        Some("environment") => {
            for name in ["RUSTC_WRAPPER", "CARGO_TARGET_DIR", "CARGO_BUILD_BUILD_DIR", "RUSTDOC", "MLPROF_PLAN"] {
                println!("{name}={:?}", std::env::var_os(name));
            }
        }
        Some("load") => println!("{}", counting::load().len()),
        Some("spin") => {
            let end = std::time::Instant::now() + std::time::Duration::from_millis(700);
            while std::time::Instant::now() < end {
                counting::spin(100_000);
            }
        }
        Some("wait") => {
            println!("waiting");
            std::thread::sleep(std::time::Duration::from_secs(60));
        }
        _ => {}
    }
}
