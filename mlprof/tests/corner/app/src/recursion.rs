//! Functions that end in calls to themselves.

/// Calls itself `n` times.
pub fn tail(n: u64, a: u64) -> u64 { if n == 0 { a } else { tail(n - 1, a ^ n) } }

/// Returns early in some cases, and computes the arguments of its calls.
pub fn returning(n: u64, sum: &mut Vec<u64>) -> usize {
    if n.is_multiple_of(2) {
        return returning(n + 1, pushed(sum, n));
    }
    match n {
        1_000_001 => sum.len(),
        _ => returning(n + 1, sum),
    }
}

fn pushed(sum: &mut Vec<u64>, n: u64) -> &mut Vec<u64> {
    sum.push(n);
    sum
}

/// A counter with a recursive method and a recursive associated function.
pub struct Counter(pub u64);

impl Counter {
    /// Counts down to zero.
    pub fn down(&mut self) {
        if self.0 > 0 {
            self.0 -= 1;
            self.down();
        }
    }

    /// Recurses without a receiver.
    pub fn steps(n: u64, done: u64) -> u64 {
        match n {
            0 => done,
            1 => done + 1,
            n if n % 2 == 0 => Self::steps(n / 2, done + 1),
            n => Counter::steps(n - 1, done + 1),
        }
    }
}

/// A type with a method of the same name as the free function that it calls.
pub struct Named;

impl Named {
    /// Calls the free function.
    pub fn named(&self) -> u64 {
        named(7)
    }
}

/// Returns its argument; the method of the same name calls this function.
pub fn named(n: u64) -> u64 {
    n
}

/// A trait with a method of the same name as the type's own method.
pub trait Called {
    /// Calls the type's own method.
    fn named(&self) -> u64;
}

impl Called for Named {
    fn named(&self) -> u64 {
        self.named()
    }
}
