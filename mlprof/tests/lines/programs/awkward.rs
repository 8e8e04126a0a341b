//! Code that instrumentation can easily break: temporaries, borrows, inference, coercions.
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Display;

struct Deep {
    inner: Option<Box<Deep>>,
    map: HashMap<String, Vec<u32>>,
    cell: RefCell<Vec<u32>>,
}

impl Deep {
    fn entry(&mut self, name: &str) -> &mut Vec<u32> {
        self.map //= 2
            .entry(name.to_owned()) //
            .or_default() //= 2
    }

    fn find(&self, depth: usize) -> Option<&Self> {
        match (depth, &self.inner) { //= 3
            (0, _) => Some(self), //= 1
            (_, Some(inner)) => inner //= 1
                .find(depth - 1),
            (_, None) => None, //= 1
        }
    }

    fn borrow_in_tail(&self) -> usize {
        self.cell.borrow().len() //= 1
    }

    fn guards(&self) -> u32 {
        let x = match self.cell.borrow().first() { //= 1
            Some(x) => *x, //= 1
            None => 0, //= 0
        };
        if let Some(last) = self.cell.borrow().last() { //= 1
            *last + x //= 1
        } else {
            0 //= 0
        }
    }
}

fn extended(flag: bool) -> usize {
    let text: &str = if flag { //= 2
        &String::from("long") //= 1
    } else if text_of(1).is_empty() { //= 1
        "" //= 0
    } else {
        &text_of(2) //= 1
    };
    let other: &String = match flag { //= 2
        true => &text_of(3), //= 1
        false => &text_of(4), //= 1
    };
    text.len() + other.len() //= 2
}

fn text_of(n: usize) -> String {
    "x".repeat(n) //= 4
}

fn coerced(values: &mut Vec<u32>) -> Vec<Box<dyn Display>> {
    let slice: &[u32] = { //= 1
        values.push(3); //= 1
        values //= 1
    };
    let list: Vec<Box<dyn Display>> = vec![Box::new(slice.len())]; //= 1
    let mut list = Some(list) //= 1
        .into_iter() //
        .flatten() //= 1
        .collect::<Vec<_>>(); //= 1
    list.push( //= 1
        Box::new("text"), //
    );
    list //= 1
}

fn inferred() -> u64 {
    let numbers = "1 2 3".split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>(); //= 1
    let mut total = 0; //= 1
    for number in numbers //= 4
        .unwrap_or_default()
        .iter() //= 1
    {
        let f: fn(u64) -> u64 = |x| x + 1; //= 3
        total += f( //= 3
            number.clone(), //= 3
        );
    }
    let pick = |flag: bool| -> u64 { //= 1
        if flag { 1 } else { 2 } //= 2
    };
    total + pick(true) + pick(false) //= 1
}

fn attributes(n: u32) -> u32 {
    #[allow(unused_mut)]
    let mut m = n; //= 1
    #[cfg(any())]
    let m = undefined();
    #[cfg(all())]
    let m = m + 1; //= 1
    #[allow(clippy::all)]
    if m > 100 { //= 1
        return 0; //= 0
    }
    let v = 'value: { //= 1
        if m == 1 { //= 1
            break 'value 3; //= 1
        }
        4 //= 0
    };
    macro_rules! add { ($e:expr) => { $e + 1 } }
    fn nested(n: u32) -> u32 {
        n + 1 //= 1
    }
    let result = unsafe { //= 1
        std::ptr::read(&v) //= 1
    };
    add!(nested(result)) //= 1
}

fn patterns(pairs: &[(u32, Option<&str>)]) -> usize {
    let mut n = 0; //= 1
    for &(number, text) in pairs { //= 4
        let Some(text) = text else { continue }; //= 3
        n += match number { //= 2
            0 | 1 //
                if text.len() > 1 => text.len(), //= 1
            _ => { n += 1; continue } //= 1
        };
    }
    n //= 1
}

fn reborrows<'a>(a: &'a mut Vec<u32>, b: &'a mut Vec<u32>, first: bool) -> &'a mut u32 {
    let chosen = if first { //= 1
        a //= 1
    } else {
        b //= 0
    };
    chosen.push(1); //= 1
    helper( //= 1
        chosen,
        if first { //= 1
            0 //= 1
        } else {
            1 //= 0
        },
    )
}

fn helper(list: &mut Vec<u32>, at: usize) -> &mut u32 {
    &mut list[at] //= 1
}

pub fn run() {
    let mut deep = Deep { inner: None, map: HashMap::new(), cell: RefCell::new(vec![1, 2]) };
    deep.entry("a").push(1);
    deep.entry("a").push(2);
    assert!(deep.find(1).is_none());
    let outer = Deep { inner: Some(Box::new(deep)), map: HashMap::new(), cell: RefCell::default() };
    let found = outer.find(1).unwrap();
    assert_eq!((found.borrow_in_tail(), found.guards()), (2, 3));
    assert_eq!((extended(true), extended(false)), (7, 6));
    assert_eq!(coerced(&mut vec![1, 2]).len(), 2);
    assert_eq!(inferred(), 12);
    assert_eq!(attributes(0), 5);
    assert_eq!(patterns(&[(0, None), (0, Some("ab")), (7, Some("c"))]), 3);
    assert_eq!(*reborrows(&mut vec![], &mut vec![], true), 1);
}
