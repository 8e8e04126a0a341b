//! Functions of all kinds.
#![deny(missing_docs)]

/// Calls itself, in total 1 + 2 · (F(n + 1) − 1) calls.
pub fn fibonacci(n: u32) -> u64 {
    if n < 2 { n.into() } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

/// Returns two clones; a generic function.
pub fn twice<T: Clone>(value: &T) -> (T, T) {
    (value.clone(), value.clone())
}

/// A trait that is called through trait objects.
pub trait Shape {
    /// Returns the area, with one implementation per type.
    fn area(&self) -> f64;
    /// Returns twice the area; a provided method.
    fn doubled(&self) -> f64 {
        2.0 * self.area()
    }
}

/// A square.
pub struct Square(pub f64);

/// A circle.
pub struct Circle(pub f64);

impl Shape for Square {
    fn area(&self) -> f64 {
        self.0 * self.0
    }
}

impl Shape for Circle {
    fn area(&self) -> f64 {
        3.0 * self.0 * self.0
    }
}

/// Returns `n ^ 3`, and is called by several threads.
pub fn leaf(n: u64) -> u64 {
    n ^ 3
}

/// Returns the sum at the second poll.
pub async fn add_slowly(one: u64, other: u64) -> u64 {
    let mut is_ready = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut is_ready, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
    one + other
}

/// Adds one; a `const fn`, which cannot have a hook.
pub const fn constant(n: u64) -> u64 {
    n + 1
}

/// Allocates a known number of bytes, and keeps half of them.
pub fn load() -> Vec<u8> {
    let kept = vec![1_u8; 1_000_000];
    let freed = vec![2_u8; 1_000_000];
    let both = kept.clone();
    drop((freed, both));
    kept
}

/// Is never called, so the compiler does not instantiate it.
pub fn never_called<T: Default>() -> T {
    T::default()
}

/// Keeps its thread busy.
pub fn spin(rounds: u64) -> u64 {
    let mut sum = 0_u64;
    for round in 0..rounds {
        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(round));
    }
    sum
}

macro_rules! make {
    ($name:ident, $factor:expr) => {
        /// Multiplies by a factor; a macro generates this function.
        pub fn $name(n: u64) -> u64 {
            n * $factor
        }
    };
}

make!(made_twice, constant(1));

#[cfg(test)]
mod tests {
    #[test]
    fn fibonacci_of_ten() {
        assert_eq!(super::fibonacci(10), 55);
    }
}
