//! Checks one table in all of its formats.

use super::*;

fn example() -> Table {
    let kernels = [("a<b>|c", "GEMM", 0.000_5, 1_200_u64, Some(2.0)), ("d", "copy", 0.0, 1, None)];
    let table = table!("Kernels", kernels, |(name, category, time, calls, rate)| {
        let fit = |parts: &[String], room: usize| parts[0].chars().take(room).collect::<String>();
        words("Kernel", "Its name") => Cell::Fitted(vec![name.to_owned()], fit),
        words("Category", "By its name") => category,
        markup("Parts", "") => Cell::Bar(vec![(1, time)]),
        seconds("Time", "Of all calls").bar() => Cell::Part(time, 0.001),
        count("Calls", "How many") => calls,
        number("GB/s", "While it ran").absent("unknown") => rate,
        seconds("Mean", "").on_page() => time / calls as f64,
        count("Lost", "").optional() => 0_u64,
    });
    table.subject("Device 0")
}

#[test]
fn text_has_names_last_and_shares_of_parts() {
    let text = example().text(1);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[0], "   Time  Calls  GB/s  Category  Kernel");
    assert_eq!(lines[2..], ["50.00 %  1,200  2.00      GEMM  a<b>|c", "… and 1 more"]);
    assert_eq!(example().heading(None), "Device 0: kernels");
    assert!(example().text(2).contains("unknown"), "{}", example().text(2));
    assert_eq!(Table::new([words("Kernel", "")]).text(1), "");
}

#[test]
fn a_heading_that_a_caption_repeats_is_left_out() {
    let table = Table { subject: None, ..example() };
    assert_eq!(table.heading(Some("By name")), "By name");
    assert_eq!(table.caption("By name and time").heading(Some("By name")), "By name and time");
}

#[test]
fn columns_of_text_have_the_order_of_their_table() {
    let header = |table: Table| table.text(9).lines().next().map(str::to_owned);
    let last = header(example().name_last());
    assert_eq!(last.as_deref(), Some("Category     Time  Calls     GB/s  Kernel"));
    let described = header(example().as_described());
    assert_eq!(described.as_deref(), Some("Kernel  Category     Time  Calls  GB/s"));
}

#[test]
fn markdown_escapes_names() {
    let expected = "Kernels\n\n| Kernel | Category | Time | Calls | GB/s |\n\
                    | --- | --- | ---: | ---: | ---: |\n\
                    | a\\<b\\>\\|c | GEMM | 50.00 % | 1,200 | 2.00 |\n";
    assert_eq!(example().markdown(1), expected);
}

#[test]
fn json_has_exact_numbers_by_title() {
    let json = example().json();
    assert_eq!(json["columns"][2]["unit"], "seconds");
    let row = &json["rows"][0];
    assert_eq!((&row["Kernel"], &row["Time"]), (&"a<b>|c".into(), &0.0005.into()));
    assert_eq!((&row["Calls"], &json["rows"][1]["GB/s"]), (&1200.0.into(), &None::<f64>.into()));
    assert_eq!(row.get("Parts"), None, "pictures are for pages");
}

fn shares(shares: &[f64]) -> Table {
    let names = ["a", "b", "c", "d", "e"];
    let table = table!("Ops", names.iter().zip(shares), |(name, part)| {
        words("Op", "") => *name,
        count("Calls", "").adds_up() => 2_u64,
        seconds("Mean", "") => *part,
        share("Share", "").adds_up() => *part,
    });
    table.fold_small("Share")
}

#[test]
fn small_rows_become_one_row_with_their_sums() {
    let shares = |all: &[f64], limit| shares(all).text(limit);
    let text = shares(&[0.9, 0.000_5, 0.001, 0.000_4], 9);
    let lines: Vec<_> = text.lines().skip(2).collect();
    let expected = [
        "    2   900 ms  90.00 %  a",
        "    2  1.00 ms   0.10 %  c",
        "    4            0.09 %  2 rows below 0.1 %",
    ];
    assert_eq!(lines, expected);
    // All calls are counted, even those of rows beyond the limit.
    let text = shares(&[0.9, 0.000_5, 0.001, 0.000_4], 1);
    assert!(text.ends_with("    6           0.19 %  … and 3 more\n"), "{text}");
    assert_eq!(shares(&[0.9, 0.000_5], 9).lines().count(), 4, "a single row stays as it is");
    assert_eq!(shares(&[0.000_5, 0.000_4], 9).lines().count(), 4, "all rows are small");
    let all = shares(&[0.9, 0.000_5, 0.000_4], usize::MAX);
    assert_eq!(all.lines().count(), 5, "all rows are shown where they are asked for: {all}");
}

#[test]
fn a_sum_covers_rows_that_are_not_shown() {
    let text = shares(&[0.5, 0.25, 0.25]).with_sum().text(1);
    let lines: Vec<_> = text.lines().skip(2).collect();
    assert_eq!(lines[1], "    4           50.00 %  … and 2 more");
    assert!(lines[2].starts_with("────"), "{text}");
    assert_eq!(lines[3], "    6          100.00 %  Sum");
}
