//! Recursion, threads, panics, generic functions.
use std::panic::{AssertUnwindSafe, catch_unwind};

fn fibonacci(n: u64) -> u64 {
    if n < 2 { //= 15
        return n; //= 8
    }
    let before = fibonacci(n - 2); //= 7
    fibonacci(n - 1) + before //= 7
}

fn work<T: std::ops::AddAssign + Copy>(start: T, step: T, times: usize) -> T {
    let mut value = start; //= 9
    for _ in 0..times { //= 99
        value += step; //= 90
    }
    value //= 9
}

fn threads() -> u64 {
    let handles = (0..8).map(|n| { //= 1
        std::thread::spawn(move || { //= 8
            work(n, 1, 10) //= 8
        })
    });
    let handles = handles.collect::<Vec<_>>(); //= 1
    let mut sum = 0; //= 1
    for handle in handles { //= 9
        sum += handle.join().unwrap(); //= 8
    }
    sum //= 1
}

fn fails(depth: u32) -> u32 {
    let guard = String::from("dropped"); //= 4
    if depth == 0 { //= 4
        panic!("at the bottom"); //= 1
    }
    let deeper = fails(depth - 1); //= 3
    deeper + guard.len() as u32 //= 0
}

fn catches() -> u32 {
    let result = catch_unwind(AssertUnwindSafe(|| { //= 1
        fails(3) //= 1
    }));
    match result { //= 1
        Ok(value) => value, //= 0
        Err(_) => 7, //= 1
    }
}

/// Returns without running a destructor.
fn forgets(flag: bool) {
    let kept = vec![1]; //= 2
    if flag { //= 2
        std::mem::forget(kept); //= 1
    }
}

pub fn run() {
    assert_eq!(fibonacci(5), 5);
    assert_eq!(work(0.5f64, 0.5, 10), 5.5);
    assert_eq!(threads(), 28 + 80);
    std::panic::set_hook(Box::new(|_| {}));
    assert_eq!(catches(), 7);
    let _ = std::panic::take_hook();
    forgets(true);
    forgets(false);
}
