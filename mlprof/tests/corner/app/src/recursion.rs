//! Functions that end in calls of themselves.

/// As deep as `n`.
pub fn tail(n: u64, a: u64) -> u64 { if n == 0 { a } else { tail(n - 1, a ^ n) } }

/// Returns in between, and computes its arguments.
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

/// A method, and one of another object.
pub struct Counter(pub u64);

impl Counter {
    /// Down to nothing.
    pub fn down(&mut self) {
        if self.0 > 0 {
            self.0 -= 1;
            self.down();
        }
    }

    /// Without an object.
    pub fn steps(n: u64, done: u64) -> u64 {
        match n {
            0 => done,
            1 => done + 1,
            n if n % 2 == 0 => Self::steps(n / 2, done + 1),
            n => Counter::steps(n - 1, done + 1),
        }
    }
}

/// Has a method of the name of a function that it ends in.
pub struct Named;

impl Named {
    /// Calls the function.
    pub fn named(&self) -> u64 {
        named(7)
    }
}

/// What the type calls.
pub fn named(n: u64) -> u64 {
    n
}

/// Of a type that has a method of the same name.
pub trait Called {
    /// The same.
    fn named(&self) -> u64;
}

impl Called for Named {
    fn named(&self) -> u64 {
        self.named()
    }
}
