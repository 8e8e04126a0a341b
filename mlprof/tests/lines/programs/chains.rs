//! Expressions that span several lines.
use std::sync::Mutex;

struct Pair {
    a: usize,
    b: Vec<usize>,
}

fn identity<T>(value: T) -> T {
    value //= 9
}

fn add(a: usize, b: usize) -> usize {
    a + b //= 2
}

fn chain(values: &[i32]) -> Result<String, std::num::ParseIntError> {
    let list = identity(values.to_vec()) //= 1
        .into_iter() //= 1
        .map(|value| value * 2) //= 1
        .filter(|value| { //= 1
            let wanted = *value > 2; //= 3
            wanted //= 3
        })
        .collect::<Vec<_>>(); //= 1
    let first = list[0].to_string() //= 1
        .parse::<i32>()? //= 1
        .checked_add(1) //= 1
        .unwrap_or_default(); //= 1
    Ok(first.to_string()) //= 1
}

fn guard(mutex: &Mutex<Vec<i32>>) -> usize {
    let length = mutex //= 1
        .lock() //
        .unwrap() //= 1
        .iter() //= 1
        .map(|x| match x { //= 1
            0 => 0, //= 1
            _ => 1, //= 2
        })
        .sum(); //= 1
    length //= 1
}

fn arguments() -> usize {
    let pair = Pair { //= 1
        a: add( //= 1
            identity(1), //= 1
            2, //
        ),
        b: vec![1, 2], //= 1
    };
    let text = &mut String::from("x"); //= 1
    text.push_str( //= 1
        &identity("y".to_owned()), //= 1
    );
    add( //= 1
        identity(pair.a), //= 1
        if text.len() == 2 { //= 1
            identity(pair.b.len()) //= 1
        } else {
            0 //= 0
        },
    )
}

fn borrowed(text: &str) -> &str {
    let parts = text.split(' ').collect::<Vec<_>>(); //= 1
    let pieces: [&str; 2] = [ //= 1
        parts[0].trim(), //= 1
        identity("z"), //= 1
    ];
    let mut lengths = vec![]; //= 1
    lengths.push( //= 1
        lengths.len(), //= 1
    );
    let all = pieces.iter().any(|piece| piece.is_empty()) //= 1
        || parts.len() > 5 //= 1
        || identity(false); //= 1
    assert!(!all); //= 1
    parts //= 1
        .first() //
        .copied() //= 1
        .unwrap_or_default() //= 1
}

fn boxed(number: usize) -> Result<Box<dyn Fn(usize) -> usize>, Box<dyn std::error::Error>> {
    let value: u8 = u8::try_from( //= 2
        identity(number), //= 2
    )?; //
    let nested = move |n: usize| { //= 1
        let inner = move |m: usize| { //= 2
            m + n + value as usize //= 4
        };
        inner(1) + inner(2) //= 2
    };
    Ok(Box::new(nested)) //= 1
}

pub fn run() {
    assert_eq!(chain(&[1, 2, 3]), Ok("5".to_owned()));
    assert_eq!(guard(&Mutex::new(vec![0, 1, 2])), 2);
    assert_eq!(arguments(), 5);
    assert_eq!(borrowed("a b"), "a");
    assert!(boxed(256).is_err());
    let function = boxed(3).unwrap();
    assert_eq!((function(1), function(2)), (11, 13));
}
