//! Port of python.py, line by line, with the same hits.

fn total(values: &[u32]) -> u32 {
    let mut result = 0; //= 2
    for value in values { //= 12
        if value % 2 == 0 { //= 10
            continue; //= 5
        }
        result += value; //= 5
    }
    return result; //= 2
}

fn countdown(mut start: u32) -> u32 {
    let mut steps = 0; //= 2
    while start > 0 { //= 10
        start -= 1; //= 8
        if start == 3 { //= 8
            steps += 10; //= 1
        } else if start == 1 { //= 7
            steps += 100; //= 2
        } else {
            steps += 1; //= 5
        }
    }
    return steps; //= 2
}

fn search(rows: &[[u32; 3]; 2], wanted: u32) -> Option<(usize, usize)> {
    for (y, row) in rows.iter().enumerate() { //= 5
        for (x, cell) in row.iter().enumerate() { //= 13
            if *cell == wanted { //= 10
                return Some((x, y)); //= 1
            }
        }
    }
    return None; //= 1
}

fn kind(value: u32) -> &'static str {
    let name; //
    match value { //= 4
        0 => {
            name = "zero"; //= 1
        }
        1 | 2 => {
            name = "small"; //= 2
        }
        _ => {
            name = "big"; //= 1
        }
    }
    return name; //= 4
}

fn checked(text: &str) -> i32 {
    let number: Result<i32, _> = text.parse(); //= 3
    let Ok(number) = number else {
        return -1; //= 1
    };
    if number > 100 { //= 2
        return 100; //= 1
    }
    return number; //= 1
}

fn fibonacci(n: u32) -> u32 {
    if n < 2 { //= 25
        return n; //= 13
    }
    let first = fibonacci(n - 1); //= 12
    let second = fibonacci(n - 2); //= 12
    return first + second; //= 12
}

pub fn run() {
    assert_eq!(total(&[1, 2, 3, 4, 5]) + total(&[0, 1, 2, 3, 4]), 13);
    assert_eq!((countdown(5), countdown(3)), (113, 102));
    let rows = [[1, 2, 3], [4, 5, 6]];
    assert_eq!((search(&rows, 4), search(&rows, 7)), (Some((0, 1)), None));
    assert_eq!([0, 1, 2, 3].map(kind), ["zero", "small", "small", "big"]);
    assert_eq!(["7", "x", "700"].map(checked), [7, -1, 100]);
    assert_eq!(fibonacci(6), 8);
}
