//! Loops, branches, early returns.

fn sum(values: &[u32]) -> u32 {
    let mut sum = 0; //= 1
    for value in values { //= 6
        if *value == 2 { //= 5
            continue; //= 1
        }
        sum += value; //= 4
    }
    let mut left = 3; //= 1
    while left > 0 { //= 4
        left -= 1; //= 3
    }
    sum //= 1
}

fn nested(rows: usize) -> usize {
    let mut found = 0; //= 1
    'outer: for row in 0..rows { //= 3
        for column in 0..10 { //= 5
            if column == 1 { //= 5
                continue 'outer; //= 2
            } else if row == 2 { //= 3
                break 'outer; //= 1
            }
            found += 1 //= 2
        }
    }
    let result = loop { //= 1
        found += 1; //= 3
        if found > 4 { //= 3
            break found; //= 1
        }
    };
    loop { //= 1
        if found == 6 { return result } //= 2
        found += 1; //= 1
    }
}

fn early(text: &str) -> Result<i32, std::num::ParseIntError> {
    if text.is_empty() { //= 3
        return Ok(0); //= 1
    }
    let number: i32 = text.parse()?; //= 2
    Ok(number + 1) //= 1
}

fn arms(value: Option<i32>) -> i32 {
    let name = match value { //= 4
        None => return -1, //= 1
        Some(0) => "zero", //= 1
        Some(other) if other < 0 => { //= 1
            let name = "negative"; //= 1
            name //= 1
        }
        Some(_) => //
            "positive", //= 1
    };
    if name.len() == 4 { 4 } else { 8 } //= 3
}

fn chosen(value: i32) -> &'static str {
    if value == 0 { //= 3
        "zero" //= 1
    } else if value == 1 { //= 2
        "one" //= 1
    } else { //
        "many" //= 1
    }
}

fn conditions(a: bool, b: bool) -> u32 {
    if a //= 3
        && b //= 2
    { //
        return 1; //= 1
    }
    let Some(x) = (if b { Some(1) } else { None }) else { //= 2
        return 2; //= 1
    };
    x //= 1
}

fn one_line(n: u32) -> u32 {
    let mut m = 0; //= 1
    for i in 0..n { m += i } //= 4
    let mut iterator = (0..3).into_iter(); //= 1
    while let Some(i) = iterator.next() { //= 4
        match i { //= 3
            1 => continue, //= 1
            _ => {} //= 2
        }
        m += 1; //= 2
    }
    m //= 1
}

fn forever() -> ! {
    let mut n = 0; //= 1
    loop { //= 1
        n += 1; //= 3
        if n == 3 { //= 3
            panic!("{n}") //= 1
        }
    }
}

pub fn run() {
    assert_eq!(sum(&[1, 2, 3, 4, 5]), 13);
    assert_eq!(nested(5), 5);
    assert_eq!(early(""), Ok(0));
    assert_eq!(early("41"), Ok(42));
    assert!(early("x").is_err());
    assert_eq!((arms(None), arms(Some(0)), arms(Some(-1)), arms(Some(1))), (-1, 4, 8, 8));
    assert_eq!((chosen(0), chosen(1), chosen(2)), ("zero", "one", "many"));
    assert_eq!((conditions(true, true), conditions(true, false), conditions(false, true)), (1, 2, 1));
    assert_eq!(one_line(3), 5);
    std::panic::set_hook(Box::new(|_| {}));
    assert!(std::panic::catch_unwind(|| forever()).is_err());
    let _ = std::panic::take_hook();
}
