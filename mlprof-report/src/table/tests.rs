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
