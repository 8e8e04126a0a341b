//! Language features that exist in every edition.

pub struct Counter<T> {
    values: Vec<T>,
}

pub trait Total {
    fn total(&self) -> usize;
    fn twice(&self) -> usize {
        let total = self.total(); //= 2
        total * 2 //= 2
    }
}

impl<T: Clone> Total for Counter<T> {
    fn total(&self) -> usize {
        let mut total = 0; //= 2
        for _ in self.values.iter() { //= 7
            total += 1; //= 5
        }
        return total; //= 2
    }
}

unsafe fn raw(pointer: *const u8) -> u8 {
    if pointer.is_null() { //= 2
        return 0; //= 1
    }
    *pointer //= 1
}

fn numbers<'a>(from: &'a [u8]) -> impl Iterator<Item = u8> + 'a {
    let start = 1; //= 1
    from.iter().skip(start).map(|number| number + 1) //= 1
}

pub fn run() {
    assert_eq!(Counter { values: vec![1, 2] }.twice(), 4);
    assert_eq!(Counter { values: vec!["a", "b", "c"] }.twice(), 6);
    unsafe {
        assert_eq!(raw(std::ptr::null()), 0);
        assert_eq!(raw(&7), 7);
    }
    assert_eq!(numbers(&[1, 2, 3]).collect::<Vec<_>>(), vec![3, 4]);
}
